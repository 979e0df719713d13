#include "exec/run/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "exec/run/agreement.h"
#include "exec/run/rank_groups.h"
#include "exec/transport/back_off.h"
#include "exec/transport/collectives.h"
#include "exec/transport/group.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// Channels between an even rank and the next come first, so that the pairs of
// a pipeline are opened in two rounds, not one after the other.
auto place_of(const Channel& channel) {
  const int lower = std::min(channel.from, channel.to);
  return std::tuple(lower % 2, lower, channel);
}

// Called by all ranks of the group.
LinkSetup::Group link_group(Transport& group, const LinkLibrary& library) {
  LinkSetup::Group linked{{}, group.rank(), group.ranks()};
  if (linked.place == 0) linked.key = library.new_key();
  linked.key = broadcast_value(group, linked.key);
  return linked;
}

// The messages of each channel, in the order of one of its ends.
using Traffic = std::map<Channel, std::vector<Action>>;

void check_order(const Channel& channel, const std::vector<Action>& sends,
                 const std::vector<Action>& receives) {
  for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
    if (sends[i] == receives[i]) continue;
    throw input_error(fmt::format(
        "rank {} sends {} before {}, and rank {} receives {} first: devices are linked by channels "
        "that keep the order; put them in one order, or use --transport mpi",
        channel.from, to_text(sends[i]), to_text(receives[i]), channel.to,
        to_text(peer_of(receives[i]))));
  }
}

}  // namespace

Channel channel_of(const Placement& placement, const Action& transfer) {
  const Action send = is_send(transfer.kind) ? transfer : peer_of(transfer);
  return {placement.rank_of(send), placement.rank_of(peer_of(send)),
          send.kind == Kind::SEND_F ? Lane::activations : Lane::gradients};
}

std::vector<Channel> channels_of(const TrainingJob& training) {
  const Schedule& program = training.program;
  Traffic sends;
  Traffic receives;  // by their SENDs
  for (int rank = 0; rank < program.ranks(); ++rank) {
    for (const Action& action : program.actions[rank]) {
      if (!is_transfer(action.kind)) continue;
      const Action plain = make_action(action.stage, action.kind, action.microbatch);
      const bool sent = is_send(plain.kind);
      (sent ? sends : receives)[channel_of(program.placement, plain)].push_back(
          sent ? plain : peer_of(plain));
    }
  }
  std::vector<Channel> channels;
  for (const auto& [channel, sent] : sends) {
    check_order(channel, sent, receives[channel]);
    channels.push_back(channel);
  }
  const int first = program.placement.rank_of(0);
  const int last = program.placement.rank_of(program.placement.stages() - 1);
  for (int stage = 0; program.placement.copies() > 1 && stage < program.stages(); ++stage) {
    const int one = program.placement.rank_of(stage, 0);
    const int other = program.placement.rank_of(stage, 1);
    const Channel channel{one, other, Lane::tied_gradient};
    if (std::ranges::find(channels, channel) != channels.end()) continue;
    channels.push_back(channel);
    channels.push_back({other, one, Lane::tied_gradient});
  }
  if (training.model.tied_head && !program.placement.has(first, program.stages() - 1)) {
    channels.push_back({first, last, Lane::tied_gradient});
    channels.push_back({last, first, Lane::tied_gradient});
  }
  std::ranges::sort(channels, {}, place_of);
  return channels;
}

std::unique_ptr<LinkedTransport> link_devices(Transport& control, Device& device,
                                              const LinkLibrary& library, const std::string& name,
                                              const TrainingJob& training) {
  // Otherwise they would not open the same channels.
  agree_on(control, "the command line", training.fingerprint());
  RankGroups groups(control, training.mesh(), training.shards());
  GroupTransport& pipeline = groups.pipeline;
  std::vector<Channel> channels;
  std::vector<ChannelKey> own;  // of the channels on which this rank sends
  agree(control, [&] {
    channels = channels_of(training);
    for (const Channel& channel : channels) {
      if (channel.from == pipeline.rank()) own.push_back(library.new_key());
    }
  });
  Bytes all;  // by rank
  for (const Bytes& keys : gather(pipeline, bytes_of(own))) {
    all.insert(all.end(), keys.begin(), keys.end());
  }
  const auto keys = values_of<ChannelKey>(broadcast(pipeline, std::move(all)));
  std::vector<std::size_t> next(static_cast<std::size_t>(pipeline.ranks()));  // key of each rank
  for (const Channel& channel : channels) {
    for (int rank = channel.from + 1; rank < pipeline.ranks(); ++rank) {
      ++next[static_cast<std::size_t>(rank)];
    }
  }
  LinkSetup setup{pipeline.rank(), {}, {}, {}, control.patience()};
  for (const Channel& channel : channels) {
    const ChannelKey& key = keys.at(next[static_cast<std::size_t>(channel.from)]++);
    const bool takes_part = channel.from == pipeline.rank() || channel.to == pipeline.rank();
    if (takes_part) setup.ends.push_back({channel, key});
  }
  if (training.library_sums) setup.sums = link_group(groups.replicas, library);
  if (training.shards() > 1) setup.gathers = link_group(groups.sharers, library);
  return std::make_unique<LinkedTransport>(control, library.connect(device, setup), name);
}

void wait_on_link(Device& device, DeviceLink& link, Mark mark,
                  std::optional<std::chrono::nanoseconds> patience, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  for (BackOff pause; !device.has_passed(mark); pause.pause()) {
    link.check();
    if (patience && std::chrono::steady_clock::now() - start > *patience) {
      throw TimedOut(fmt::format("waited {} for {}", format_time(patience->count()), what));
    }
  }
}

}  // namespace pipesim::exec
