#include "exec/checkpoint/snapshot.h"

#include <fmt/format.h>

#include <exception>

#include "exec/checkpoint/hash.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

TensorEntry entry_of(const SavedArray& array) {
  const std::optional<Range> range = array.numbers.in_whole();
  const bool is_whole = range && range->begin == 0 && range->end == array.whole_size;
  TensorEntry entry;
  entry.name = is_whole ? array.key : array.key + to_text(array.numbers);
  entry.type = "F32";
  entry.shape = {array.numbers.size()};
  return entry;
}

// Hashes what it writes.
class HashedFile {
 public:
  HashedFile(Disk& disk, const std::string& path) : file_(disk.create(path)) {}

  void write(std::span<const std::byte> bytes) {
    hasher_.add(bytes);
    bytes_ += static_cast<std::int64_t>(bytes.size());
    file_->write(bytes);
  }
  CheckpointFile finish(const std::string& name) {
    file_->sync();
    return {name, bytes_, hasher_.text()};
  }

 private:
  std::unique_ptr<DiskFile> file_;
  Hasher hasher_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void Snapshot::take(Device& device, const std::vector<SavedArray>& arrays, bool copies) {
  const bool copies_all = copies || !device.host_reaches_memory();
  device.finish();
  entries_.clear();
  numbers_.clear();
  bytes_ = 0;
  for (const SavedArray& array : arrays) bytes_ += array.slice.bytes();
  if (copies_all && copies_.size() < static_cast<std::size_t>(bytes_)) {
    copies_.resize(static_cast<std::size_t>(bytes_));
  }
  std::byte* at = copies_.data();
  for (const SavedArray& array : arrays) {
    entries_.push_back(entry_of(array));
    const auto size = static_cast<std::size_t>(array.slice.bytes());
    if (copies_all) {
      device.download(at, array.slice.memory(), array.slice.bytes());
      numbers_.emplace_back(at, size);
      at += size;
    } else {
      numbers_.emplace_back(static_cast<const std::byte*>(array.slice.memory()), size);
    }
  }
}

CheckpointFile Snapshot::write(Disk& disk, const std::string& folder,
                               const std::string& name) const {
  const std::string path = fmt::format("{}/{}", folder, name);
  try {
    HashedFile file(disk, path);
    const std::string header = tensor_header(entries_);
    file.write(std::as_bytes(std::span(header)));
    for (const auto& numbers : numbers_) file.write(numbers);
    return file.finish(name);
  } catch (const Error&) {
    const std::exception_ptr first = std::current_exception();
    try {
      disk.remove_file(path);
    } catch (const Error&) {  // the first failure is reported
    }
    std::rethrow_exception(first);
  }
}

}  // namespace pipesim::exec
