#include "exec/supervise/ranks_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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

namespace {

constexpr std::size_t max_printed_bytes = std::size_t{64} << 10;
constexpr std::int64_t look_every_ns = 200'000'000;

}  // namespace

RanksProbe::~RanksProbe() { cancel(); }

void RanksProbe::start(std::int64_t now_ns) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw work_error(
        fmt::format("--ranks-available: cannot read its answer: {}", std::strerror(errno)));
  }
  output_ = ends[0];
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
  printed_.clear();
  id_ = processes_.start({.words = {"/bin/sh", "-c", command_}, .output = ends[1]});
  ::close(ends[1]);
  deadline_ns_ = now_ns + patience_ns_;
}

std::int64_t RanksProbe::time_to_look(std::int64_t now_ns) const {
  return std::clamp<std::int64_t>(deadline_ns_ - now_ns, 0, look_every_ns);
}

std::optional<RanksProbe::Answer> RanksProbe::answer(std::int64_t now_ns) {
  const std::optional<Ending> ending = processes_.ending_of(id_);
  read_output();
  Answer answer;
  if (printed_.size() >= max_printed_bytes) {
    answer.wrong = fmt::format("it has printed more than {}, and was ended",
                               format_bytes(static_cast<std::int64_t>(max_printed_bytes)));
  } else if (ending) {
    answer = answer_of(*ending);
  } else if (now_ns >= deadline_ns_) {
    answer.wrong =
        fmt::format("it has not ended within {}, and was ended", format_time(patience_ns_));
  } else {
    return std::nullopt;
  }
  cancel();
  return answer;
}

void RanksProbe::cancel() {
  if (id_ != 0 && !processes_.ending_of(id_)) ::kill(-id_, SIGKILL);
  id_ = 0;
  if (output_ >= 0) ::close(std::exchange(output_, -1));
}

// What is there; a process that the command left behind may hold the pipe open.
void RanksProbe::read_output() {
  std::array<char, 4096> bytes;
  while (printed_.size() < max_printed_bytes) {
    const ssize_t got = ::read(output_, bytes.data(), bytes.size());
    if (got <= 0) return;
    printed_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

RanksProbe::Answer RanksProbe::answer_of(const Ending& ending) const {
  if (!ending.went_well()) return {std::nullopt, ending.text()};
  const std::string_view text = strip(printed_);
  int ranks = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (status != std::errc() || end != text.data() + text.size() || ranks < 0) {
    return {std::nullopt, fmt::format("it has printed {} and not a number of ranks", quote(text))};
  }
  return {ranks, ""};
}

}  // namespace pipesim::exec
