// Files read whole, and files written whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pipesim {

// The content of `path`, or an input error that says why it can't be read.
std::string read_file(const std::string& path);

// A file under construction. What is written goes to a temporary file beside
// `path`; commit() renames it into place; without commit() the destructor
// removes it, so `path` never holds half a result. An existing path that is not a regular file (a
// pipe, a terminal) is written directly. Opening fails at once, as an input error,
// where the path can't be written, before any work is done. One owner, one thread.
class OutputFile {
 public:
  explicit OutputFile(std::string path, bool gzip = false);
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  void write(std::string_view bytes);
  void commit();
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes `bytes` to `path` by an OutputFile.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace pipesim
