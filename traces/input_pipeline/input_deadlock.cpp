// Whether the ranks of an input program deadlock.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "traces/input_pipeline/input_program.h"

namespace pipesim {
namespace {

// Runs a program without times: everything that can run, does.
class UntimedRun {
 public:
  explicit UntimedRun(const InputProgram& program) : program_(program) {
    std::uint32_t count = 0;
    for (const InputCalls& calls : program.calls) {
      first_.push_back(count);
      count += static_cast<std::uint32_t>(calls.size());
    }
    first_.push_back(count);
    awaited_.resize(count);
    missing_.resize(count);
    is_done_.resize(count);
    let_go_.resize(count);
    for (int rank = 0; rank < program.ranks(); ++rank) add(rank);
  }

  std::optional<InputFault> run() {
    for (std::uint32_t node = 0; node < missing_.size(); ++node) {
      if (missing_[node] == 0) ready_.push_back(node);
    }
    while (!ready_.empty()) {
      const std::uint32_t node = ready_.back();
      ready_.pop_back();
      come(node);
    }
    const auto stuck = std::ranges::find(is_done_, false);
    if (stuck == is_done_.end()) return std::nullopt;
    return circle_from(static_cast<std::uint32_t>(stuck - is_done_.begin()));
  }

 private:
  struct Collective {
    std::vector<std::uint32_t> parts;  // node indices, by rank
    std::size_t come = 0;              // of those
  };

  const InputCall& call(std::uint32_t node) const {
    const auto rank = static_cast<std::size_t>(rank_of(node));
    return program_.calls[rank][node - first_[rank]];
  }
  int rank_of(std::uint32_t node) const {
    return static_cast<int>(std::ranges::upper_bound(first_, node) - first_.begin()) - 1;
  }
  static std::pair<InputKind, std::int32_t> key(const InputAction& action) {
    return {action.kind, action.batch};
  }

  void add(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    constexpr std::uint32_t none = 0xffffffff;
    std::array<std::uint32_t, input_stream_count> last;
    last.fill(none);
    const InputCalls& calls = program_.calls[at];
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      const InputCall& own = calls[place];
      const std::uint32_t node = first_[at] + place;
      auto& stream = last[static_cast<std::size_t>(own.stream)];
      const std::uint32_t host = last[static_cast<std::size_t>(InputStream::host)];
      if (stream != none) need(node, stream);
      if (host != none && host != stream) need(node, host);
      for (const std::uint32_t awaited : own.after) need(node, first_[at] + awaited);
      stream = node;
      if (is_collective(own.action.kind)) collectives_[key(own.action)].parts.push_back(node);
    }
  }
  void need(std::uint32_t node, std::uint32_t awaited) {
    awaited_[node].push_back(awaited);
    let_go_[awaited].push_back(node);
    ++missing_[node];
  }

  void come(std::uint32_t node) {
    if (!is_collective(call(node).action.kind)) return finish(node);
    Collective& collective = collectives_.at(key(call(node).action));
    if (++collective.come < collective.parts.size()) return;
    for (const std::uint32_t part : collective.parts) finish(part);
  }
  void finish(std::uint32_t node) {
    if (is_done_[node]) return;
    is_done_[node] = true;
    for (const std::uint32_t next : let_go_[node]) {
      if (--missing_[next] == 0) ready_.push_back(next);
    }
  }

  // What a stuck call waits for, and whether that is another rank's arrival.
  std::pair<std::uint32_t, bool> awaited_by(std::uint32_t node) const {
    for (const std::uint32_t awaited : awaited_[node]) {
      if (!is_done_[awaited]) return {awaited, false};
    }
    const auto& parts = collectives_.at(key(call(node).action)).parts;
    const auto late = std::ranges::find_if(parts, [&](auto part) { return missing_[part] != 0; });
    return {*late, true};
  }

  InputFault circle_from(std::uint32_t node) const {
    std::vector<bool> seen(missing_.size());
    while (!seen[node]) {
      seen[node] = true;
      node = awaited_by(node).first;
    }
    std::string text = "the ranks wait for each other forever: ";
    std::uint32_t at = node;
    do {
      const auto [next, other] = awaited_by(at);
      text += fmt::format(
          "rank {}'s {} waits for {}; ", rank_of(at), to_text(call(at).action),
          other ? fmt::format("rank {} to come to it", rank_of(next)) : to_text(call(next).action));
      at = next;
    } while (at != node);
    text.resize(text.size() - 2);
    const int rank = rank_of(node);
    return {rank, node - first_[static_cast<std::size_t>(rank)], std::move(text)};
  }

  const InputProgram& program_;
  std::vector<std::uint32_t> first_;  // node of each rank's first call
  std::vector<std::vector<std::uint32_t>> awaited_, let_go_;
  std::vector<std::uint32_t> missing_;
  std::vector<bool> is_done_;
  std::map<std::pair<InputKind, std::int32_t>, Collective> collectives_;
  std::vector<std::uint32_t> ready_;
};

}  // namespace

std::optional<InputFault> find_deadlock(const InputProgram& program) {
  return UntimedRun(program).run();
}

}  // namespace pipesim
