#include "sim/compare/transfer_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "sim/compare/samples.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct Transfer {
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;
  std::int64_t took_ns = 0;
  bool counts = true;  // its receiver stood waiting for it
};

using Key = std::tuple<Kind, std::int32_t, std::int32_t>;
Key key_of(const Action& action) { return {action.kind, action.stage, action.microbatch}; }

// The action that needs what a RECV brings.
const Span* consumer_of(const Action& receive, const std::map<Key, const Span*>& spans) {
  const auto find = [&](Kind kind) -> const Span* {
    const auto found = spans.find(Key{kind, receive.stage, receive.microbatch});
    return found == spans.end() ? nullptr : found->second;
  };
  if (receive.kind == Kind::RECV_F) return find(Kind::F);
  const Span* backward = find(Kind::B);
  return backward != nullptr ? backward : find(Kind::I);
}

void collect(const RecordedRun& run, const RecordedIteration& iteration,
             std::vector<Transfer>& transfers) {
  std::map<Key, const Span*> spans;
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
    spans.emplace(key_of(run.spans[i].action), &run.spans[i]);
  }
  for (const auto& [key, receive] : spans) {
    if (!is_receive(receive->action.kind)) continue;
    const auto sent = spans.find(key_of(peer_of(receive->action)));
    if (sent == spans.end()) continue;
    const Span& send = *sent->second;
    Transfer transfer{send.rank, receive->rank, receive->bytes, 0, true};
    const std::int64_t both_there = std::max(send.start_ns, receive->start_ns);
    transfer.took_ns = receive->end_ns - both_there;
    if (run.about.source == Source::measured) {
      const Span* consumer = consumer_of(receive->action, spans);
      if (consumer == nullptr) continue;
      transfer.counts = consumer->start_ns - consumer->queued_ns <= send.start_ns;
      if (transfer.counts) transfer.took_ns = consumer->start_ns - send.start_ns;
    }
    transfers.push_back(transfer);
  }
}

// latency + bytes x ns_per_byte.
struct Line {
  double latency_ns = 0;
  double ns_per_byte = 0;

  double at(std::int64_t bytes) const {
    return latency_ns + static_cast<double>(bytes) * ns_per_byte;
  }
};

// Least squares through the medians by size, each weighted by its samples.
// Neither part is below 0.
Line fit(const std::map<std::int64_t, Samples>& by_size) {
  double n = 0, x = 0, y = 0;
  for (const auto& [bytes, samples] : by_size) {
    const auto weight = static_cast<double>(samples.count());
    n += weight;
    x += weight * static_cast<double>(bytes);
    y += weight * static_cast<double>(samples.quantile(0.5));
  }
  const double mean_x = x / n;
  const double mean_y = y / n;
  double xx = 0, xy = 0, through_xx = 0, through_xy = 0;
  for (const auto& [bytes, samples] : by_size) {
    const auto weight = static_cast<double>(samples.count());
    const double dx = static_cast<double>(bytes) - mean_x;
    const auto time = static_cast<double>(samples.quantile(0.5));
    xx += weight * dx * dx;
    xy += weight * dx * (time - mean_y);
    through_xx += weight * static_cast<double>(bytes) * static_cast<double>(bytes);
    through_xy += weight * static_cast<double>(bytes) * time;
  }
  if (xx == 0 || xy <= 0) return {mean_y, 0};
  Line line{mean_y - xy / xx * mean_x, xy / xx};
  if (line.latency_ns < -0.5) line = {0, through_xy / through_xx};
  return line;
}

Link link_of(const Line& line) {
  Link link;
  link.latency_ns = std::max<std::int64_t>(0, std::llround(line.latency_ns));
  if (line.ns_per_byte > 0) {
    link.bytes_per_second =
        std::clamp(static_cast<std::int64_t>(std::llround(1e9 / line.ns_per_byte)), std::int64_t{1},
                   max_bytes_per_second);
  }
  return link;
}

void add_edges(const std::vector<Transfer>& transfers, TransferTimes& result) {
  std::map<std::pair<int, int>, Samples> off;  // from the general line
  Costs general;
  general.p2p = result.p2p;
  for (const Transfer& transfer : transfers) {
    const std::int64_t usual =
        general.p2p.latency_ns + general.occupied_ns(general.p2p, transfer.bytes);
    off[{transfer.from, transfer.to}].add(transfer.took_ns - usual);
  }
  for (const auto& [edge, samples] : off) {
    const std::int64_t median = samples.quantile(0.5);
    if (std::abs(median) <= samples.quantile(0.9) - samples.quantile(0.1)) continue;
    Link link = result.p2p;
    link.latency_ns = std::max<std::int64_t>(0, link.latency_ns + median);
    if (link != result.p2p) result.edges.emplace(edge, link);
  }
}

}  // namespace

TransferTimes transfer_times(std::span<const RecordedRun* const> runs, std::int64_t receive_ns) {
  TransferTimes result;
  std::vector<Transfer> transfers;
  for (const RecordedRun* run : runs) {
    for (const RecordedIteration& iteration : run->iterations) {
      collect(*run, iteration, transfers);
    }
  }
  result.transfers = static_cast<std::int64_t>(transfers.size());
  if (transfers.empty()) {
    result.notes.push_back("p2p: nothing was sent between ranks; latency and bandwidth unknown");
    return result;
  }
  if (std::ranges::any_of(transfers, &Transfer::counts)) {
    std::erase_if(transfers, [](const Transfer& transfer) { return !transfer.counts; });
  } else {
    std::ranges::stable_sort(transfers, {}, &Transfer::took_ns);
    transfers.resize((transfers.size() + 9) / 10);
    result.notes.push_back(
        "p2p: no message was awaited when it was sent; its time is that of the fastest tenth");
  }
  std::map<std::int64_t, Samples> by_size;
  Samples all;
  for (Transfer& transfer : transfers) {
    transfer.took_ns = std::max<std::int64_t>(0, transfer.took_ns - receive_ns);
    by_size[transfer.bytes].add(transfer.took_ns);
    all.add(transfer.took_ns);
  }
  for (const auto& [bytes, samples] : by_size) result.sizes.push_back(bytes);
  const Line line = fit(by_size);
  result.p2p = link_of(line);
  result.spread = all.spread();
  if (by_size.size() == 1) {
    result.notes.push_back(fmt::format(
        "p2p: all messages have {}, so that latency can't be told from bandwidth; all of it is "
        "latency",
        format_bytes(result.sizes.front())));
  } else if (!result.p2p.bytes_per_second) {
    result.notes.push_back(
        "p2p: larger messages took no longer; bandwidth is taken to be unlimited");
  }
  add_edges(transfers, result);
  return result;
}

}  // namespace pipesim
