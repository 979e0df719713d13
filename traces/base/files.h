// Files read whole, and files written whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pipesim {

// The content of `path`, a file or a pipe of at most 1 GiB; an input error says why it
// can't be read.
std::string read_file(const std::string& path);

// A file or a pipe read from its beginning, plain or gzip; its first bytes tell which.
// Opening fails at once, as an input error. One owner, one thread.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  // Puts up to `size` bytes at `to`, fewer only at the end, where it returns 0. Truncated or
  // damaged compressed data end there; see damaged().
  std::size_t read(char* to, std::size_t size);
  bool damaged() const;
  const std::string& path() const;
  std::int64_t bytes() const;  // on disk; 0 if not a regular file
  double share_read() const;   // of those bytes, from 0 to 1

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A file under construction. Writes go to a temporary file next to
// `path`; commit() renames it into place; without commit() the destructor
// removes it, as does the system or a signal handler if the process ends, so
// `path` never holds half a result. An existing path that is not a regular file (a
// pipe, a terminal) is written directly. Opening fails at once, as an input error,
// if the path can't be written, before any work is done. One owner, one thread.
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
