// File system operations of checkpoints; a crash may happen after each call.
//
// A file's bytes are durable once it is synced, a name once its folder is. A failure is a work
// error that names the file. Any thread may call a disk; a file has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipesim::exec {

class DiskFile {
 public:
  virtual ~DiskFile() = default;  // closes it

  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;

  // An existing one is kept, with its contents.
  virtual void make_folder(const std::string& path) = 0;
  // Creates an empty one, replacing any existing one.
  virtual std::unique_ptr<DiskFile> create(const std::string& path) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_file(const std::string& path) = 0;
  virtual void remove_folder(const std::string& path) = 0;  // must be empty
};

// The machine's disk: a static object, always valid.
Disk& machine_disk();

// The names in a folder, sorted; none if there is no such folder. Throws an input error if it can't
// be read.
std::vector<std::string> names_in(const std::string& folder);

// The size of a regular file, or nothing if there is none.
std::optional<std::int64_t> size_of_file(const std::string& path);

// A file mapped into memory. The caller must know that it is complete and that nobody truncates it.
// One owner; any thread may read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace pipesim::exec
