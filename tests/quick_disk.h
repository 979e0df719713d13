// A disk that does as the machine's, but for waiting until what it has done is safe.
#pragma once

#include <memory>
#include <string>

#include "exec/checkpoint/disk.h"

namespace pipesim::testing {

class QuickDisk final : public exec::Disk {
 public:
  void make_folder(const std::string& path) override { machine().make_folder(path); }
  std::unique_ptr<exec::DiskFile> create(const std::string& path) override {
    return std::make_unique<File>(machine().create(path));
  }
  void sync_folder(const std::string& /*path*/) override {}
  void rename(const std::string& from, const std::string& to) override {
    machine().rename(from, to);
  }
  void remove_file(const std::string& path) override { machine().remove_file(path); }
  void remove_folder(const std::string& path) override { machine().remove_folder(path); }

 private:
  class File final : public exec::DiskFile {
   public:
    explicit File(std::unique_ptr<exec::DiskFile> file) : file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override { file_->write(bytes); }
    void sync() override {}

   private:
    std::unique_ptr<exec::DiskFile> file_;
  };

  static exec::Disk& machine() { return exec::machine_disk(); }
};

}  // namespace pipesim::testing
