#include "traces/read/profile/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"
#include "traces/read/profile/range_index.h"

namespace pipesim {
namespace {

using Says = RangeName::Says;

// The time from the first start to the last end.
struct Hull {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool empty = true;

  void add(std::int64_t start, std::int64_t end) {
    start_ns = empty ? start : std::min(start_ns, start);
    end_ns = empty ? end : std::max(end_ns, end);
    empty = false;
  }
};

// Messages in one direction: from the first hand-over to the end of the last wait.
struct Messages {
  Hull hull;
  std::int64_t bytes = 0;
};

// The events found for one range.
struct Found {
  Hull compute;      // kernels except NCCL's
  Hull collectives;  // NCCL's
  std::int64_t collective_bytes = 0;
  std::vector<const ProfileKernel*> loose;  // NCCL's in a range of both directions
  Hull sent, received;                      // messages on the processor
};

// Where kernels were launched from.
class Origins {
 public:
  explicit Origins(const ProfileFile& file)
      : launches_(first_of_each_id(file, file.launches)),
        operators_(first_of_each_id(file, file.operators)),
        flows_(first_of_each_id(file, file.flows)) {}

  // Nothing if the file does not say, or two processes may have launched it.
  std::optional<ProfileOrigin> of(const ProfileKernel& kernel) const {
    if (auto origin = find(launches_, kernel.correlation)) return origin;
    if (auto origin = find(operators_, kernel.external_id)) return origin;
    return find(flows_, kernel.correlation);
  }

 private:
  // Sorted by id; without those of two processes.
  static std::vector<ProfileOrigin> first_of_each_id(const ProfileFile& file,
                                                     std::vector<ProfileOrigin> origins) {
    std::sort(origins.begin(), origins.end(), [](const auto& a, const auto& b) {
      return std::tie(a.id, a.time_ns, a.thread) < std::tie(b.id, b.time_ns, b.thread);
    });
    const auto process = [&](const ProfileOrigin& origin) {
      return file.threads[static_cast<std::size_t>(origin.thread)].process;
    };
    auto kept = origins.begin();
    for (auto first = origins.begin(); first != origins.end();) {
      const auto next = std::find_if(first, origins.end(),
                                     [&](const auto& origin) { return origin.id != first->id; });
      const bool of_one_process = std::all_of(
          first, next, [&](const auto& origin) { return process(origin) == process(*first); });
      if (of_one_process) *kept++ = *first;
      first = next;
    }
    origins.erase(kept, origins.end());
    return origins;
  }

  static std::optional<ProfileOrigin> find(const std::vector<ProfileOrigin>& origins,
                                           std::int64_t id) {
    if (id < 0) return std::nullopt;
    const auto first = std::lower_bound(
        origins.begin(), origins.end(), id,
        [](const ProfileOrigin& origin, std::int64_t wanted) { return origin.id < wanted; });
    if (first == origins.end() || first->id != id) return std::nullopt;
    return *first;
  }

  std::vector<ProfileOrigin> launches_, operators_, flows_;
};

class Finder {
 public:
  Finder(const ProfileFile& file, std::size_t index, bool with_turns, Warnings& warnings)
      : file_(file),
        file_index_(index),
        ranges_(file, with_turns),
        warnings_(warnings),
        found_(file.ranges.size()) {
    has_kernels_ = std::any_of(file.kernels.begin(), file.kernels.end(),
                               [](const auto& kernel) { return kernel.computes; });
  }

  ProfileOperations find() {
    if (!has_kernels_ && !file_.launches.empty() && !ranges_.ranges().empty()) {
      warnings_.add(
          "launches of kernels but no kernel: times are those of the processor, not of "
          "the device; record activities of both",
          file_.path, static_cast<std::int64_t>(file_.launches.size()));
    }
    add_kernels();
    add_messages();
    add_operations();
    add_steps();
    return std::move(result_);
  }

 private:
  Found& found(int range) { return found_[static_cast<std::size_t>(range)]; }
  const ProfileRange& range(int i) const { return file_.ranges[static_cast<std::size_t>(i)]; }

  void add_kernels() {
    const Origins origins(file_);
    std::int64_t lost = 0;
    for (const ProfileKernel& kernel : file_.kernels) {
      const auto origin = origins.of(kernel);
      const int at =
          origin ? ranges_.in_process(origin->thread, origin->time_ns) : RangeIndex::none;
      if (at == RangeIndex::none) {
        lost += kernel.computes ? 1 : 0;
        continue;
      }
      Found& what = found(at);
      if (!kernel.collective) {
        what.compute.add(kernel.start_ns, kernel.end_ns);
      } else if (range(at).name.says == Says::microbatch) {
        what.loose.push_back(&kernel);
      } else {
        what.collectives.add(kernel.start_ns, kernel.end_ns);
        add_bytes(what.collective_bytes, kernel);
      }
    }
    result_.unmatched += lost;
    if (lost != 0) {
      warnings_.add("kernels that no range of the pipeline launched, left out", file_.path, lost);
    }
    for (const ProfileRange& range : file_.ranges) {
      result_.unmatched += range.name.says == Says::unknown ? 1 : 0;
    }
  }

  void add_bytes(std::int64_t& sum, const ProfileKernel& kernel) const {
    sum += kernel.bytes;
    if (sum <= max_bytes) return;
    throw input_error(
        fmt::format("{}: messages of one range have more than 1 PiB together", file_.path));
  }

  void add_messages() {
    for (const ProfileMessage& message : file_.messages) {
      const int at = ranges_.on_thread(message.thread, message.start_ns);
      if (at == RangeIndex::none) continue;
      auto& way = message.sends ? found(at).sent : found(at).received;
      way.add(message.start_ns, message.end_ns);
    }
  }

  void add_operations() {
    for (const int i : ranges_.ranges()) {
      const RangeName& name = range(i).name;
      const bool computes = is_compute(name.action.kind) && (name.says != Says::optimizer);
      if (name.says == Says::action && is_transfer(name.action.kind)) {
        add_transfer(i);
      } else if (computes) {
        add_compute(i);
      } else {
        add_other(i);
      }
    }
    for (ProfileProcess& process : result_.processes) {
      std::stable_sort(process.operations.begin(), process.operations.end(),
                       [](const auto& a, const auto& b) { return a.called_ns < b.called_ns; });
    }
  }

  ProfileOperation operation(int i) const {
    const ProfileRange& from = range(i);
    ProfileOperation made;
    made.says = from.name.says;
    made.action = from.name.action;
    made.partner = from.name.partner;
    made.called_ns = from.start_ns;
    made.start_ns = from.start_ns;
    made.end_ns = from.end_ns;
    return made;
  }

  void keep(int i, const ProfileOperation& made) {
    process_of(range(i).thread).operations.push_back(made);
  }

  // Kept until iterations are known, since its range helps to find them.
  void miss(int i) {
    ProfileOperation made = operation(i);
    made.lost = true;
    keep(i, made);
    warnings_.add("ranges of actions whose kernels are not in the file, left out",
                  fmt::format("{}: {}", file_.path, to_text(range(i).name.action)));
  }

  void add_transfer(int i) {
    ProfileOperation made = operation(i);
    const Found& what = found(i);
    const Hull& messages = is_send(made.action.kind) ? what.sent : what.received;
    if (!what.collectives.empty) {
      made.start_ns = what.collectives.start_ns;
      made.end_ns = what.collectives.end_ns;
      made.bytes = what.collective_bytes;
    } else if (!messages.empty) {
      made.start_ns = messages.start_ns;
      made.end_ns = std::max(messages.end_ns, messages.start_ns);
    } else if (has_kernels_) {
      return miss(i);
    }
    if (is_receive(made.action.kind)) {
      arrivals_[{process_index(range(i).thread), ActionKey(made.action)}] = made.end_ns;
    }
    keep(i, made);
  }

  void add_compute(int i) {
    ProfileOperation made = operation(i);
    if (has_kernels_) {
      const Hull& kernels = found(i).compute;
      if (kernels.empty) return miss(i);
      made.start_ns = kernels.start_ns;
      made.end_ns = kernels.end_ns;
      if (made.says == Says::microbatch) add_loose(i, made);
      return keep(i, made);
    }
    if (made.says == Says::microbatch) {
      add_messages_of(i, made);
    } else if (made.says == Says::action) {
      wait_for_input(i, made);
    }
    keep(i, made);
  }

  // Its range begins when its rank reaches it; its input may arrive later.
  void wait_for_input(int i, ProfileOperation& made) const {
    const auto arrival =
        arrivals_.find({process_index(range(i).thread), ActionKey(receive_for(made.action))});
    if (arrival == arrivals_.end()) return;
    begin_at(made, arrival->second);
  }

  static void begin_at(ProfileOperation& made, std::int64_t input_ns) {
    if (input_ns <= made.start_ns || input_ns > made.end_ns) return;
    made.queued_ns = input_ns - made.start_ns;
    made.start_ns = input_ns;
  }

  static ProfileOperation message_of(const ProfileOperation& action, bool sends) {
    ProfileOperation made = action;
    const bool forward = action.action.kind == Kind::F;
    made.action.kind =
        sends ? (forward ? Kind::SEND_F : Kind::SEND_B) : (forward ? Kind::RECV_F : Kind::RECV_B);
    made.queued_ns = 0;
    return made;
  }

  // "Forward 1" receives, computes and sends.
  void add_messages_of(int i, ProfileOperation& made) {
    const Found& what = found(i);
    ProfileOperation receive = message_of(made, false);
    ProfileOperation send = message_of(made, true);
    if (!what.received.empty) {
      receive.start_ns = what.received.start_ns;
      receive.end_ns = what.received.end_ns;
      keep(i, receive);
      begin_at(made, receive.end_ns);
    }
    if (!what.sent.empty) {
      send.start_ns = what.sent.start_ns;
      send.end_ns = what.sent.end_ns;
      keep(i, send);
      made.end_ns = std::max(made.start_ns, std::min(made.end_ns, send.start_ns));
    }
  }

  // The same on a device, with the direction from arguments, or from the order.
  void add_loose(int i, const ProfileOperation& made) {
    Messages sent, received;
    for (const ProfileKernel* kernel : found(i).loose) {
      const bool receives = kernel->message == ProfileKernel::Message::none
                                ? kernel->start_ns < made.start_ns
                                : kernel->message == ProfileKernel::Message::receive;
      Messages& way = receives ? received : sent;
      way.hull.add(kernel->start_ns, kernel->end_ns);
      add_bytes(way.bytes, *kernel);
    }
    for (const bool sends : {false, true}) {
      const Messages& way = sends ? sent : received;
      if (way.hull.empty) continue;
      ProfileOperation message = message_of(made, sends);
      message.start_ns = way.hull.start_ns;
      message.end_ns = way.hull.end_ns;
      message.bytes = way.bytes;
      keep(i, message);
    }
  }

  // Exchanges of gradients and parameters, the optimizer: without kernels on the device, there was
  // nothing to do.
  void add_other(int i) {
    ProfileOperation made = operation(i);
    if (has_kernels_) {
      Hull all = found(i).compute;
      const Hull& collectives = found(i).collectives;
      if (!collectives.empty) all.add(collectives.start_ns, collectives.end_ns);
      if (all.empty) return;
      made.start_ns = all.start_ns;
      made.end_ns = all.end_ns;
    }
    keep(i, made);
  }

  void add_steps() {
    for (const ProfileRange& range : file_.ranges) {
      if (range.name.says != Says::iteration) continue;
      const int process = file_.threads[static_cast<std::size_t>(range.thread)].process;
      const auto entry = processes_.find(process);
      if (entry == processes_.end()) continue;
      result_.processes[entry->second].steps.push_back(
          {range.name.number, range.start_ns, range.end_ns});
    }
    for (ProfileProcess& process : result_.processes) {
      std::sort(process.steps.begin(), process.steps.end(), [](const auto& a, const auto& b) {
        return std::tie(a.start_ns, a.number) < std::tie(b.start_ns, b.number);
      });
    }
  }

  int process_index(int thread) const {
    return file_.threads[static_cast<std::size_t>(thread)].process;
  }

  ProfileProcess& process_of(int thread) {
    const int process = process_index(thread);
    const auto [entry, fresh] = processes_.try_emplace(process, result_.processes.size());
    if (fresh) {
      const auto& from = file_.processes[static_cast<std::size_t>(process)];
      result_.processes.push_back({file_index_, file_.path, from.name, {}, {}});
    }
    return result_.processes[entry->second];
  }

  const ProfileFile& file_;
  std::size_t file_index_;
  RangeIndex ranges_;
  Warnings& warnings_;
  std::vector<Found> found_;
  bool has_kernels_ = false;
  // The latest end of a RECV, by process.
  std::map<std::pair<int, ActionKey>, std::int64_t> arrivals_;
  std::map<int, std::size_t> processes_;  // of the file, in the result
  ProfileOperations result_;
};

}  // namespace

ProfileOperations find_operations(const ProfileFile& file, std::size_t index, bool with_turns,
                                  Warnings& warnings) {
  return Finder(file, index, with_turns, warnings).find();
}

}  // namespace pipesim
