#include "sim/calibrate/transfer_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/calibrate/samples.h"
#include "traces/base/text.h"
#include "traces/dependency.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

struct Transfer {
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;
  std::int64_t took_ns = 0;
  bool counts = true;  // its receiver was already waiting
};

void collect(const RecordedRun& run, const RecordedIteration& iteration,
             std::vector<Transfer>& transfers) {
  const std::span<const Span> spans = run.spans_of(iteration);
  const SpanIndex index(spans);
  for (const auto& [key, place] : index.entries()) {
    const Span& receive = spans[place];
    if (!is_receive(receive.action.kind)) continue;
    const auto sent = index.find(peer_of(receive.action));
    if (!sent) continue;
    const Span& send = spans[*sent];
    Transfer transfer{send.rank, receive.rank, receive.bytes, 0, true};
    const std::int64_t both_there = std::max(send.start_ns, receive.start_ns);
    transfer.took_ns = receive.end_ns - both_there;
    if (run.about.source == Source::measured) {
      const auto needing = index.find_either(compute_at(receive.action));
      if (!needing) continue;
      const Span& consumer = spans[*needing];
      transfer.counts = consumer.start_ns - consumer.queued_ns <= send.start_ns;
      if (transfer.counts) transfer.took_ns = consumer.start_ns - send.start_ns;
    }
    transfers.push_back(transfer);
  }
}

using Edge = std::pair<int, int>;

// The time per byte, by least squares through the medians of each edge and size. Edges may differ
// in latency: sizes are compared on the same edge, or on all if no edge has two of them. 0 if
// larger messages take no longer.
double fit_ns_per_byte(const std::vector<Transfer>& transfers) {
  std::map<Edge, std::map<std::int64_t, Samples>> by_edge;
  for (const Transfer& transfer : transfers) {
    by_edge[{transfer.from, transfer.to}][transfer.bytes].add(transfer.took_ns);
  }
  struct Sums {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    void add(const Sums& other) {
      n += other.n;
      x += other.x;
      y += other.y;
      xx += other.xx;
      xy += other.xy;
    }
    double deviation_xx() const { return xx - x * x / n; }
    double deviation_xy() const { return xy - x * y / n; }
  };
  Sums all;
  double within_xx = 0;
  double within_xy = 0;
  for (const auto& [edge, by_size] : by_edge) {
    Sums own;
    for (const auto& [bytes, samples] : by_size) {
      const auto n = static_cast<double>(samples.count());
      const auto x = static_cast<double>(bytes);
      const auto y = static_cast<double>(samples.quantile(0.5));
      own.add({n, n * x, n * y, n * x * x, n * x * y});
    }
    all.add(own);
    if (by_size.size() == 1) continue;
    within_xx += own.deviation_xx();
    within_xy += own.deviation_xy();
  }
  if (within_xx > 0) return std::max(0.0, within_xy / within_xx);
  const double xx = all.deviation_xx();
  return xx > 0 ? std::max(0.0, all.deviation_xy() / xx) : 0;
}

void set_bandwidth(double ns_per_byte, Link& link) {
  // A rate beyond the limit of costs counts as unlimited.
  if (ns_per_byte * static_cast<double>(max_bytes_per_second) < 1e9) return;
  link.bytes_per_second =
      std::max(std::int64_t{1}, static_cast<std::int64_t>(std::llround(1e9 / ns_per_byte)));
}

// The time of a transfer without that of its bytes.
std::int64_t beside_bytes(const Link& link, const Transfer& transfer) {
  return transfer.took_ns - Costs().occupied_ns(link, transfer.bytes);
}

Link fit(const std::vector<Transfer>& transfers) {
  Link link;
  set_bandwidth(fit_ns_per_byte(transfers), link);
  Samples beside;
  for (const Transfer& transfer : transfers) beside.add(beside_bytes(link, transfer));
  link.latency_ns = beside.quantile(0.5);
  if (link.latency_ns >= 0) return link;
  // Bytes explain more than the whole: then they explain all.
  double xx = 0;
  double xy = 0;
  for (const Transfer& transfer : transfers) {
    const auto x = static_cast<double>(transfer.bytes);
    xx += x * x;
    xy += x * static_cast<double>(transfer.took_ns);
  }
  link = {};
  if (xx > 0) set_bandwidth(xy / xx, link);
  return link;
}

void add_edges(const std::vector<Transfer>& transfers, TransferTimes& result) {
  std::map<Edge, std::pair<Samples, Samples>> by_edge;  // without bytes, and whole
  for (const Transfer& transfer : transfers) {
    auto& [beside, whole] = by_edge[{transfer.from, transfer.to}];
    beside.add(beside_bytes(result.p2p, transfer));
    whole.add(transfer.took_ns);
  }
  for (const auto& [edge, samples] : by_edge) {
    const auto& [beside, whole] = samples;
    const std::int64_t latency_ns = beside.quantile(0.5);
    const std::int64_t noise_ns = beside.quantile(0.9) - beside.quantile(0.1);
    if (std::abs(latency_ns - result.p2p.latency_ns) <= noise_ns) continue;
    // If its bytes would take longer than it does, all of it is latency.
    result.edges[edge] = latency_ns >= 0 ? Link{latency_ns, result.p2p.bytes_per_second}
                                         : Link{whole.quantile(0.5), std::nullopt};
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
        "p2p: no receiver was waiting when its message was sent; the fastest tenth gives the time");
  }
  std::set<std::int64_t> sizes;
  Samples all;
  for (Transfer& transfer : transfers) {
    transfer.took_ns = std::max<std::int64_t>(0, transfer.took_ns - receive_ns);
    sizes.insert(transfer.bytes);
    all.add(transfer.took_ns);
  }
  result.sizes.assign(sizes.begin(), sizes.end());
  result.p2p = fit(transfers);
  result.spread = all.spread();
  if (sizes == std::set<std::int64_t>{0}) {
    result.notes.push_back(
        "p2p: how large messages are is not recorded; output_bytes are taken to be 0, and all "
        "their time to be latency");
  } else if (sizes.size() == 1) {
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
