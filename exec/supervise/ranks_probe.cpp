#include "exec/supervise/ranks_probe.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

RanksProbe::~RanksProbe() { cancel(); }

void RanksProbe::start(std::int64_t now_ns) {
  output_ = ::memfd_create("ranks", MFD_CLOEXEC);
  if (output_ < 0) {
    throw work_error(
        fmt::format("--ranks-available: cannot keep its answer: {}", std::strerror(errno)));
  }
  id_ = processes_.start({.words = {"/bin/sh", "-c", command_}, .output = output_});
  deadline_ns_ = now_ns + patience_ns_;
}

std::optional<RanksProbe::Answer> RanksProbe::answer(std::int64_t now_ns) {
  const std::optional<Ending> ending = processes_.ending_of(id_);
  if (!ending && now_ns < deadline_ns_) return std::nullopt;
  Answer answer;
  if (ending) {
    answer = read_answer(*ending);
  } else {
    answer.wrong = fmt::format("it has not ended within {}", format_time(patience_ns_));
  }
  cancel();
  return answer;
}

void RanksProbe::cancel() {
  if (id_ != 0 && !processes_.ending_of(id_)) ::kill(-id_, SIGKILL);
  id_ = 0;
  if (output_ >= 0) ::close(std::exchange(output_, -1));
}

RanksProbe::Answer RanksProbe::read_answer(const Ending& ending) const {
  if (!ending.went_well()) return {std::nullopt, ending.text()};
  std::array<char, 256> bytes{};
  const ssize_t got = ::pread(output_, bytes.data(), bytes.size(), 0);
  const std::string_view text = strip({bytes.data(), static_cast<std::size_t>(got > 0 ? got : 0)});
  int ranks = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (status != std::errc() || end != text.data() + text.size() || ranks < 0) {
    return {std::nullopt, fmt::format("it has printed {} and not a number of ranks", quote(text))};
  }
  return {ranks, ""};
}

}  // namespace pipesim::exec
