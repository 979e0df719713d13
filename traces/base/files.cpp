#include "traces/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/part_file.h"
#include "traces/base/text.h"

namespace pipesim {

namespace {

Error unreadable(const std::string& path, std::string_view why) {
  return input_error(fmt::format("cannot read {}: {}", quote(path), why));
}

int open_for_reading(const std::string& path) {
  // Endless files, such as /dev/zero, and terminals.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode))) {
    throw unreadable(path, "it is a device; give a file or a pipe");
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw unreadable(path, std::strerror(errno));
  return fd;
}

}  // namespace

std::string read_file(const std::string& path) {
  const auto fail = [&](int error) { return unreadable(path, std::strerror(error)); };
  const int fd = open_for_reading(path);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat info {};
  if (::fstat(fd, &info) != 0) throw fail(errno);
  std::string content;
  if (S_ISREG(info.st_mode))
    content.reserve(static_cast<std::size_t>(info.st_size) + (std::size_t{1} << 20));
  constexpr std::size_t chunk = std::size_t{1} << 20;
  constexpr std::size_t largest = std::size_t{1} << 30;
  for (;;) {
    const std::size_t used = content.size();
    if (used > largest) {
      throw input_error(fmt::format("cannot read {}: it is larger than 1 GiB", quote(path)));
    }
    content.resize(used + chunk);
    const ssize_t got = ::read(fd, content.data() + used, chunk);
    content.resize(used + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) throw fail(errno);
  }
}

struct InputFile::State {
  std::string path;
  int fd = -1;
  std::int64_t bytes = 0;
  std::int64_t bytes_read = 0;
  std::vector<char> ahead;  // read, but not passed on
  std::size_t at = 0;
  std::optional<z_stream> gzip;
  bool has_begun = false;
  bool is_over = false;
  bool damaged = false;

  ~State() {
    if (gzip) ::inflateEnd(&*gzip);
    if (fd >= 0) ::close(fd);
  }

  // Reads up to `size` bytes; 0 at the end.
  std::size_t read_raw(char* to, std::size_t size) {
    ssize_t got = 0;
    do {
      got = ::read(fd, to, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) throw unreadable(path, std::strerror(errno));
    bytes_read += got;
    return static_cast<std::size_t>(got);
  }

  // Reads ahead until there are `least` bytes, or the file ends; returns whether there are.
  bool look(std::size_t least) {
    constexpr std::size_t stretch = std::size_t{1} << 16;
    while (ahead.size() - at < least) {
      ahead.erase(ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(at));
      at = 0;
      const std::size_t had = ahead.size();
      ahead.resize(had + stretch);
      const std::size_t got = read_raw(ahead.data() + had, stretch);
      ahead.resize(had + got);
      if (got == 0) return false;
    }
    return true;
  }

  bool gzip_begins() { return look(2) && ahead[at] == '\x1f' && ahead[at + 1] == '\x8b'; }

  void begin() {
    has_begun = true;
    if (!gzip_begins()) return;
    gzip.emplace();
    constexpr int gzip_alone = 16 + MAX_WBITS;
    if (::inflateInit2(&*gzip, gzip_alone) != Z_OK) throw unreadable(path, "out of memory");
  }

  std::size_t read_plain(char* to, std::size_t size) {
    std::size_t got = std::min(size, ahead.size() - at);
    std::copy_n(ahead.data() + at, got, to);
    at += got;
    while (got < size) {
      const std::size_t more = read_raw(to + got, size - got);
      if (more == 0) break;
      got += more;
    }
    return got;
  }

  // Data unpacked before they break off count.
  std::size_t read_gzip(char* to, std::size_t size) {
    constexpr std::size_t most = std::size_t{1} << 30;  // zlib's counters are 32 bits
    std::size_t got = 0;
    while (got < size && !is_over) {
      if (!look(1)) {
        is_over = damaged = true;
        break;
      }
      const auto room = static_cast<uInt>(std::min(size - got, most));
      const auto packed = static_cast<uInt>(std::min(ahead.size() - at, most));
      gzip->next_in = reinterpret_cast<Bytef*>(ahead.data() + at);
      gzip->avail_in = packed;
      gzip->next_out = reinterpret_cast<Bytef*>(to + got);
      gzip->avail_out = room;
      const int status = ::inflate(&*gzip, Z_NO_FLUSH);
      at += packed - gzip->avail_in;
      got += room - gzip->avail_out;
      if (status == Z_MEM_ERROR) throw unreadable(path, "out of memory");
      if (status == Z_STREAM_END) {
        is_over = !gzip_begins();  // anything may follow
        if (!is_over) ::inflateReset(&*gzip);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        is_over = damaged = true;
      }
    }
    return got;
  }
};

InputFile::InputFile(std::string path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = std::move(path);
  state.fd = open_for_reading(state.path);
  struct stat info {};
  if (::fstat(state.fd, &info) == 0 && S_ISREG(info.st_mode)) state.bytes = info.st_size;
}

InputFile::InputFile(InputFile&&) noexcept = default;
InputFile::~InputFile() = default;

std::size_t InputFile::read(char* to, std::size_t size) {
  State& state = *state_;
  if (!state.has_begun) state.begin();
  return state.gzip ? state.read_gzip(to, size) : state.read_plain(to, size);
}

bool InputFile::damaged() const { return state_->damaged; }
const std::string& InputFile::path() const { return state_->path; }
std::int64_t InputFile::bytes() const { return state_->bytes; }
double InputFile::share_read() const {
  if (state_->bytes == 0) return 0;
  const std::int64_t left = std::ssize(state_->ahead) - static_cast<std::int64_t>(state_->at);
  const auto read = static_cast<double>(state_->bytes_read - left);
  return std::clamp(read / static_cast<double>(state_->bytes), 0.0, 1.0);
}

struct OutputFile::State {
  std::string path;                   // as the user wrote it
  std::string target;                 // links resolved; empty when written directly
  std::optional<PartFile> temporary;  // the name of the file while it has one
  int fd = -1;
  gzFile gzip = nullptr;
  std::string buffer;
  bool is_open = false;

  // A path that can't be opened is an input error; later failures are not the path's fault.
  [[noreturn]] void fail(std::string_view what) const {
    const auto message = fmt::format("cannot {} {}: {}", what, quote(path), std::strerror(errno));
    throw is_open ? work_error(message) : input_error(message);
  }

  std::string folder() const {
    const std::size_t slash = target.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : target.substr(0, slash);
  }

  // Calls make(name) with names in the target's folder until one is free.
  template <typename Make>
  void with_free_name(Make make) {
    for (int attempt = 0;; ++attempt) {
      temporary.emplace(fmt::format("{}/.pipesim-{}-{}.part", folder(), ::getpid(), attempt));
      if (make(temporary->name())) return;
      const int error = errno;
      temporary->forget();
      errno = error;
      if (error != EEXIST) fail("write");
    }
  }

  // An unnamed file if the file system supports it: it vanishes with the process, however that
  // ends.
  void open_temporary() {
    constexpr mode_t mode = 0666;
    if (::access("/proc/self/fd", X_OK) == 0) {  // needed to name it in the end
      fd = ::open(folder().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
      if (fd >= 0) return;
      if (errno != EOPNOTSUPP && errno != EISDIR) fail("write");
    }
    with_free_name([&](const std::string& name) {
      fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      return fd >= 0;
    });
  }

  void flush() {
    std::string_view rest = buffer;
    while (!rest.empty()) {
      if (gzip != nullptr) {
        const int wrote = gzwrite(gzip, rest.data(), static_cast<unsigned>(rest.size()));
        if (wrote <= 0) fail("write");
        rest.remove_prefix(static_cast<std::size_t>(wrote));
      } else {
        const ssize_t wrote = ::write(fd, rest.data(), rest.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) fail("write");
        rest.remove_prefix(static_cast<std::size_t>(wrote));
      }
    }
    buffer.clear();
  }

  ~State() {
    if (gzip != nullptr) gzclose(gzip);
    if (fd >= 0) ::close(fd);
  }
};

namespace {

// The descriptor of a name such as /dev/stdout, or -1: output goes to the open file, at its
// position.
int inherited_descriptor(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view number = path.substr(folder.size());
    int fd = -1;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), fd).ptr;
    if (end == number.data() + number.size()) return fd;
  }
  return -1;
}

}  // namespace

OutputFile::OutputFile(std::string path, bool gzip) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = std::move(path);
  if (state.path.empty()) throw input_error("the name of an output file is empty");

  struct stat info {};
  const bool exists = ::stat(state.path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    throw input_error(fmt::format("cannot write {}: it is a folder", quote(state.path)));
  }
  if (const int inherited = inherited_descriptor(state.path); inherited >= 0) {
    state.fd = ::fcntl(inherited, F_DUPFD_CLOEXEC, 0);
    if (state.fd < 0) state.fail("write");
  } else if (exists && !S_ISREG(info.st_mode)) {
    state.fd = ::open(state.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (state.fd < 0) state.fail("write");
  } else {
    if (exists && ::access(state.path.c_str(), W_OK) != 0) state.fail("write");
    struct stat link {};
    if (!exists && ::lstat(state.path.c_str(), &link) == 0) {
      throw input_error(fmt::format("cannot write {}: it is a dangling link", quote(state.path)));
    }
    state.target = state.path;
    if (char resolved[PATH_MAX]; exists && ::realpath(state.path.c_str(), resolved) != nullptr) {
      state.target = resolved;  // replace what a link points at, not the link
    }
    // An unnamed file would fail only in the end.
    const std::string name = state.target.substr(state.target.rfind('/') + 1);
    const long longest = ::pathconf(state.folder().c_str(), _PC_NAME_MAX);
    if (longest > 0 && name.size() > static_cast<std::size_t>(longest)) {
      errno = ENAMETOOLONG;
      state.fail("write");
    }
    state.open_temporary();
    // A new file gets the umask's permissions, an existing one keeps its own.
    if (exists && ::fchmod(state.fd, info.st_mode & 07777U) != 0) state.fail("write");
  }
  if (gzip) {
    state.gzip = gzdopen(::dup(state.fd), "wb6");
    if (state.gzip == nullptr) state.fail("write");
  }
  state.is_open = true;
}

OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view bytes) {
  constexpr std::size_t buffered = std::size_t{1} << 18;
  state_->buffer.append(bytes);
  if (state_->buffer.size() >= buffered) state_->flush();
}

void OutputFile::commit() {
  State& state = *state_;
  state.flush();
  if (state.gzip != nullptr && gzclose(std::exchange(state.gzip, nullptr)) != Z_OK) {
    state.fail("write");
  }
  if (!state.target.empty() && !state.temporary) {
    const std::string open_file = fmt::format("/proc/self/fd/{}", state.fd);
    state.with_free_name([&](const std::string& name) {
      return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
  }
  if (::close(std::exchange(state.fd, -1)) != 0) state.fail("write");
  if (state.target.empty()) return;  // written directly
  if (::rename(state.temporary->name().c_str(), state.target.c_str()) != 0) state.fail("write");
  state.temporary->forget();
}

const std::string& OutputFile::path() const { return state_->path; }

void write_file(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace pipesim
