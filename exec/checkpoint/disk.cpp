#include "exec/checkpoint/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::string failure(const std::string& path, std::string_view what) {
  return fmt::format("{}: {}: {}", printable(path), what, std::strerror(errno));
}

[[noreturn]] void fail_on(const std::string& path, std::string_view what) {
  throw work_error(failure(path, what));
}

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

int open_again(const char* path, int flags, mode_t mode = 0) {
  for (;;) {
    const int number = ::open(path, flags | O_CLOEXEC, mode);
    if (number >= 0 || errno != EINTR) return number;
  }
}

class MachineFile final : public DiskFile {
 public:
  explicit MachineFile(const std::string& path)
      : path_(path), file_(open_again(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666)) {
    if (file_.number() < 0) fail_on(path_, "can't be made");
  }

  void write(std::span<const std::byte> bytes) override {
    // Linux writes at most this much per call.
    constexpr std::size_t most = std::size_t{1} << 30;
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.number(), bytes.data(), std::min(bytes.size(), most));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_on(path_, "can't be written");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void sync() override {
    if (::fsync(file_.number()) != 0) fail_on(path_, "can't be synced");
  }

 private:
  std::string path_;
  Descriptor file_;
};

class MachineDisk final : public Disk {
 public:
  void make_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_on(path, "can't be made");
  }
  std::unique_ptr<DiskFile> create(const std::string& path) override {
    return std::make_unique<MachineFile>(path);
  }
  void sync_folder(const std::string& path) override {
    const Descriptor folder(open_again(path.c_str(), O_RDONLY | O_DIRECTORY));
    if (folder.number() < 0 || ::fsync(folder.number()) != 0) fail_on(path, "can't be synced");
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      fail_on(from, fmt::format("can't become {}", printable(to)));
    }
  }
  void remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail_on(path, "can't be removed");
  }
  void remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) fail_on(path, "can't be removed");
  }
};

}  // namespace

Disk& machine_disk() {
  static MachineDisk disk;  // has no state
  return disk;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) {
    if (errno == ENOENT) return names;
    throw input_error(failure(folder, "can't be read"));
  }
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(stream);
  std::ranges::sort(names);
  return names;
}

std::optional<std::int64_t> size_of_file(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return facts.st_size;
}

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file(open_again(path.c_str(), O_RDONLY | O_NONBLOCK));  // no pipe's writer
  struct stat facts {};
  if (file.number() < 0 || ::fstat(file.number(), &facts) != 0) {
    throw input_error(failure(path, "can't be read"));
  }
  if (!S_ISREG(facts.st_mode)) {
    throw input_error(fmt::format("{}: is not a regular file", printable(path)));
  }
  if (facts.st_size == 0) return;
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) throw input_error(failure(path, "can't be read"));
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, std::span<const std::byte>())) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace pipesim::exec
