#include "sim/schedule/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

using Node = std::uint32_t;
constexpr Node no_node = std::numeric_limits<Node>::max();

// One entry of a stream: the end of a node on it.
struct Item {
  Node node;
  const Action* action;  // in the schedule; for a compute cell its first
};

// A queue that runs in order, cell by cell. The items of one cell run in any
// order; the next cell waits for all of them.
struct Stream {
  std::vector<Item> items;
  std::size_t head = 0;        // first item of the cell at the head
  std::size_t head_end = 0;    // one past its last
  std::size_t unfinished = 0;  // items of that cell still to run
};

// The untimed execution of a schedule. A node is a compute cell, or a transfer with both ends (one
// node per end if its SEND completes by itself).
class Execution {
 public:
  Execution(const Schedule& schedule, SendMode mode, const EagerSends& eager)
      : schedule_(schedule),
        mode_(mode),
        eager_(eager),
        program_(schedule.has_transfers()),
        numbers_(schedule.ranks(), lane_of(mode)),
        microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
    const std::size_t slots = static_cast<std::size_t>(schedule.stages()) * microbatches_;
    for (auto& table : nodes_) table.assign(slots, no_node);
    if (schedule.dependencies.empty()) nodes_[table_of(Kind::W)].clear();
    build_streams();
    connect();
    add_dependencies();
  }

  std::optional<std::string> run() {
    std::vector<Node> ready;
    const auto show_head = [&](std::uint32_t index) {
      Stream& stream = streams_[index];
      stream.head = stream.head_end;
      if (stream.head == stream.items.size()) return;
      do {
        ++stream.head_end;
      } while (stream.head_end < stream.items.size() &&
               is_batched(*stream.items[stream.head_end - 1].action));
      stream.unfinished = stream.head_end - stream.head;
      for (std::size_t i = stream.head; i < stream.head_end; ++i) {
        arrive(stream.items[i].node, ready);
      }
    };
    for (std::uint32_t i = 0; i < streams_.size(); ++i) show_head(i);
    while (!ready.empty()) {
      const Node node = ready.back();
      ready.pop_back();
      for (const std::uint32_t index : streams_of_[node]) {
        if (index != no_node && --streams_[index].unfinished == 0) show_head(index);
      }
      for (const Node successor : successors_[node]) {
        if (successor != no_node) arrive(successor, ready);
      }
      for (auto at = std::ranges::lower_bound(dependents_, node, {}, &Dependent::first);
           at != dependents_.end() && at->first == node; ++at) {
        arrive(at->second, ready);
      }
    }
    const bool stuck = std::ranges::any_of(
        streams_, [](const Stream& stream) { return stream.head < stream.items.size(); });
    if (!stuck) return std::nullopt;
    return describe_cycle();
  }

 private:
  using Dependent = std::pair<Node, Node>;
  using Awaited = std::pair<Node, const Dependency*>;

  std::size_t slot(const Action& a) const {
    return static_cast<std::size_t>(a.stage) * microbatches_ +
           static_cast<std::size_t>(a.microbatch);
  }
  Node& node_of(const Action& a) { return nodes_[table_of(a.kind)][slot(a)]; }
  // F; I and B share a table, since one (stage, microbatch) has only one of them; W, without
  // consumers, is needed only for dependencies; then the transfers.
  static std::size_t table_of(Kind kind) {
    switch (kind) {
      case Kind::F: return 0;
      case Kind::I:
      case Kind::B: return 1;
      case Kind::W: return 2;
      default: return 3 + static_cast<std::size_t>(kind) - static_cast<std::size_t>(Kind::SEND_F);
    }
  }

  Node new_node() {
    waits_.push_back(0);
    successors_.push_back({no_node, no_node});
    streams_of_.push_back({no_node, no_node});
    return static_cast<Node>(waits_.size() - 1);
  }

  // Transfers of one cell run concurrently. A stream per edge keeps its own order regardless of
  // cells.
  bool is_batched(const Action& action) const {
    return action.joined && is_transfer(action.kind) && mode_ != SendMode::edge_fifo;
  }

  // Whether the SEND of a transfer, given by either end, completes by itself.
  bool is_eager(const Action& transfer) const {
    if (mode_ == SendMode::buffered) return true;
    return eager_ && eager_(is_send(transfer.kind) ? transfer : peer_of(transfer));
  }

  // Adds an end of `node` to a stream: the node runs once each of its ends is at the head of its
  // stream.
  void append(std::uint32_t stream, Node node, const Action& action) {
    streams_[stream].items.push_back({node, &action});
    ++waits_[node];
    auto& own = streams_of_[node];
    own[own[0] == no_node ? 0 : 1] = stream;
  }

  std::uint32_t stream_for(int rank, const Action& transfer) {
    const int peer = schedule_.placement.rank_of(peer_of(transfer));
    const int stream = is_send(transfer.kind) ? numbers_.transfers(rank, rank, peer)
                                              : numbers_.transfers(rank, peer, rank);
    streams_.resize(static_cast<std::size_t>(numbers_.count()));
    return static_cast<std::uint32_t>(stream);
  }

  void build_streams() {
    streams_.resize(static_cast<std::size_t>(numbers_.count()));
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto list = schedule_.actions[rank];
      const auto own = static_cast<std::uint32_t>(numbers_.compute(rank));
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Action& action = list[i];
        if (action.kind == Kind::IDLE) continue;
        if (is_transfer(action.kind)) {
          Node& node = node_of(action);
          const Node other_end = node_of(peer_of(action));
          const bool meets = other_end != no_node && !is_eager(action);
          node = meets ? other_end : new_node();
          append(stream_for(rank, action), node, action);
          continue;
        }
        // The second action of an overlapped cell belongs to the first's node.
        const bool continues = i > 0 && list[i - 1].joined;
        const Node node = continues ? streams_[own].items.back().node : new_node();
        if (!continues) append(own, node, action);
        const bool is_awaited = makes_result(action.kind) || action.kind == Kind::W;
        if (is_awaited && !nodes_[table_of(action.kind)].empty()) node_of(action) = node;
      }
    }
  }

  // The action on another stream that must have run before `action`, if any.
  // A rank's own order takes care of F -> I -> W; under `rendezvous` and
  // `buffered` also of SEND and RECV around their compute.
  std::optional<Action> awaited_by(const Action& action) const {
    if (action.kind == Kind::W) return std::nullopt;
    const bool streamed = mode_ == SendMode::fifo || mode_ == SendMode::edge_fifo;
    const auto producer = producer_of(action, schedule_.stages());
    if (!producer) return std::nullopt;
    if (is_send(action.kind)) return streamed ? producer : std::nullopt;
    if (is_receive(action.kind)) return is_eager(action) ? producer : std::nullopt;
    if (producer->stage == action.stage) return std::nullopt;
    const auto& placement = schedule_.placement;
    const bool local = placement.rank_of(*producer) == placement.rank_of(action);
    if (local || !program_) return producer;
    return streamed ? std::optional(receive_for(action)) : std::nullopt;
  }

  // A node has at most two successors: one for each action of its cell.
  void connect() {
    for (const Action& action : schedule_.actions.all()) {
      const auto producer = awaited_by(action);
      if (!producer) continue;
      const Node after = node_of(action);
      ++waits_[after];
      auto& successors = successors_[node_of(*producer)];
      successors[successors[0] == no_node ? 0 : 1] = after;
    }
  }

  // Adds the schedule's own dependencies.
  void add_dependencies() {
    for (const Dependency& dependency : schedule_.dependencies) {
      const Node before = node_of(dependency.awaited);
      const Node after = node_of(dependency.action);
      ++waits_[after];
      dependents_.push_back({before, after});
      awaited_.push_back({after, &dependency});
    }
    std::ranges::sort(dependents_);
    std::ranges::stable_sort(awaited_, {}, &Awaited::first);
  }

  void arrive(Node node, std::vector<Node>& ready) {
    if (--waits_[node] == 0) ready.push_back(node);
  }

  // What the head of a stuck stream waits for: an action on another stream.
  struct Wait {
    std::uint32_t stream;
    Action head;  // the waiting action
    Action awaited;
  };

  // A node's waits are used up only once it has run.
  bool is_done(Node node) const { return waits_[node] == 0; }

  bool at_head(std::uint32_t stream, Node node) const {
    const Stream& s = streams_[stream];
    return std::any_of(s.items.begin() + static_cast<std::ptrdiff_t>(s.head),
                       s.items.begin() + static_cast<std::ptrdiff_t>(s.head_end),
                       [&](const Item& item) { return item.node == node; });
  }

  Wait wait_of(std::uint32_t stream) {
    const Stream& own = streams_[stream];
    for (std::size_t i = own.head; i < own.head_end; ++i) {
      const auto [node, cell] = own.items[i];
      if (is_done(node)) continue;
      for (const std::uint32_t other : streams_of_[node]) {
        if (other == no_node || other == stream || at_head(other, node)) continue;
        return {other, *cell,
                peer_of(*cell)};  // the other end has not reached the head of its stream
      }
      // The producers for all parts of the node: both actions of a compute cell, both ends of a
      // transfer.
      std::array<Action, 2> parts{*cell, *cell};
      if (is_transfer(cell->kind) && node_of(peer_of(*cell)) == node) parts[1] = peer_of(*cell);
      if (is_compute(cell->kind) && cell->joined) parts[1] = cell[1];
      for (const Action& part : parts) {
        const auto producer = awaited_by(part);
        if (!producer || is_done(node_of(*producer))) continue;
        return {streams_of_[node_of(*producer)][0], *cell, as_written(*producer)};
      }
      for (auto at = std::ranges::lower_bound(awaited_, node, {}, &Awaited::first);
           at != awaited_.end() && at->first == node; ++at) {
        const auto& [action, awaited] = *at->second;
        if (!is_done(node_of(awaited))) return {streams_of_[node_of(awaited)][0], action, awaited};
      }
    }
    throw std::logic_error("a stuck stream that waits for nothing");
  }

  // awaited_by() returns B for any backward: converts it to the schedule's I or B.
  Action as_written(const Action& action) {
    if (action.kind != Kind::B) return action;
    const Node node = node_of(action);
    for (const Item& item : streams_[streams_of_[node][0]].items) {
      if (item.node != node) continue;
      return make_action(action.stage,
                         item.action->joined ? item.action[1].kind : item.action->kind,
                         action.microbatch);
    }
    return action;
  }

  std::string describe_cycle() {
    std::uint32_t stream = 0;
    while (streams_[stream].head == streams_[stream].items.size()) ++stream;
    std::vector<std::uint32_t> path;
    std::vector<Wait> waits;
    std::vector<std::size_t> position(streams_.size(), std::numeric_limits<std::size_t>::max());
    while (position[stream] == std::numeric_limits<std::size_t>::max()) {
      position[stream] = path.size();
      path.push_back(stream);
      waits.push_back(wait_of(stream));
      stream = waits.back().stream;
    }
    const std::vector<std::string> names = numbers_.names();
    std::string text = "deadlock: ";
    for (std::size_t i = position[stream]; i < path.size(); ++i) {
      const Wait& wait = waits[i];
      const Stream& other = streams_[wait.stream];
      if (i > position[stream]) text += "; ";
      text += fmt::format("{} on {} waits for {}", to_text(wait.head), names[path[i]],
                          to_text(wait.awaited));
      const std::string other_head = to_text(*other.items[other.head].action);
      if (other_head != to_text(wait.awaited)) {
        text += fmt::format(", which comes after {}", other_head);
      }
      text += fmt::format(" on {}", names[wait.stream]);
    }
    return text;
  }

  const Schedule& schedule_;
  SendMode mode_;
  const EagerSends& eager_;
  bool program_;
  Streams numbers_;
  std::size_t microbatches_;
  std::vector<Stream> streams_;  // by number
  std::array<std::vector<Node>, 7> nodes_;
  std::vector<std::uint32_t> waits_;  // ends not at their head + unfinished producers
  std::vector<std::array<Node, 2>> successors_;
  // Dependencies, sorted: by the awaited action; and by the waiting one.
  std::vector<Dependent> dependents_;
  std::vector<Awaited> awaited_;
  std::vector<std::array<std::uint32_t, 2>> streams_of_;
};

struct Mode {
  SendMode mode;
  std::string_view name;
  TransferLane lane;
};
constexpr std::array<Mode, 4> send_modes{
    {{SendMode::buffered, "buffered", TransferLane::compute},
     {SendMode::rendezvous, "rendezvous", TransferLane::compute},
     {SendMode::fifo, "fifo", TransferLane::rank},
     {SendMode::edge_fifo, "edge-fifo", TransferLane::edge}}};
const Mode& entry_of(SendMode mode) { return *std::ranges::find(send_modes, mode, &Mode::mode); }

}  // namespace

TransferLane lane_of(SendMode mode) { return entry_of(mode).lane; }
std::string_view send_mode_name(SendMode mode) { return entry_of(mode).name; }

std::vector<SendMode> all_send_modes() {
  std::vector<SendMode> all(send_modes.size());
  std::ranges::transform(send_modes, all.begin(), &Mode::mode);
  return all;
}

SendMode parse_send_mode(std::string_view name) {
  std::vector<std::string> known;
  for (const Mode& mode : send_modes) {
    if (mode.name == name) return mode.mode;
    known.emplace_back(mode.name);
  }
  throw input_error(unknown_name("transport", name, known));
}

std::optional<std::string> find_deadlock(const Schedule& schedule, SendMode mode,
                                         const EagerSends& eager) {
  return Execution(schedule, mode, eager).run();
}

void throw_deadlock(const Schedule& schedule, SendMode mode, const EagerSends& eager) {
  const auto cycle = find_deadlock(schedule, mode, eager);
  throw input_error(fmt::format("{}: {}", schedule.name, cycle.value_or("makes no progress")));
}

}  // namespace pipesim
