#include "sim/calibrate/exchange_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pipesim {
namespace {

// What determines the end of a collective: since when a rank exchanged without a pause, with how
// many consecutive bytes and steps.
struct ExchangeEnd {
  double since_ns = 0;
  double bytes = 0;
  int steps = 0;
  double end_ns = 0;  // as recorded

  double took_ns() const { return end_ns - since_ns; }
  double end_by(double ns_per_byte, double latency_ns) const {
    return since_ns + bytes * ns_per_byte + steps * latency_ns;
  }
};

void add_ends(const RankExchanges& rank, double ns_per_byte, double latency_ns,
              std::vector<ExchangeEnd>& ends) {
  const std::size_t first = ends.size();
  ends.resize(first + rank.ends_ns.size());
  std::vector<double> latest(rank.ends_ns.size(), -1);
  ExchangeEnd link{std::numeric_limits<double>::lowest()};  // the last byte on it
  ExchangeEnd turn = link;                                  // the last piece that had it
  for (const ExchangePiece& piece : rank.pieces) {
    const auto when = [&](const ExchangeEnd& end) { return end.end_by(ns_per_byte, latency_ns); };
    ExchangeEnd own{piece.ready_ns};
    if (when(link) > when(own)) own = link;
    // Also while steps take no time yet.
    if (piece.in_turn && when(turn) >= when(own)) own = turn;
    own.bytes += piece.bytes;
    link = own;
    own.steps += piece.steps;
    if (piece.in_turn) turn = own;
    own.end_ns = rank.ends_ns[piece.collective];
    if (when(own) < latest[piece.collective]) continue;
    latest[piece.collective] = when(own);
    ends[first + piece.collective] = own;
  }
}

std::vector<ExchangeEnd> ends_of(std::span<const RankExchanges> ranks, double ns_per_byte,
                                 double latency_ns) {
  std::vector<ExchangeEnd> ends;
  for (const RankExchanges& rank : ranks) add_ends(rank, ns_per_byte, latency_ns, ends);
  return ends;
}

double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Line {
  double ns_per_byte = 0;
  double latency_ns = 0;
};

double off_of(const ExchangeEnd& end, const Line& line) {
  return end.took_ns() - end.bytes * line.ns_per_byte - end.steps * line.latency_ns;
}

double usual_off(const std::vector<ExchangeEnd>& ends, const Line& line) {
  double sum = 0;
  for (const ExchangeEnd& end : ends) sum += std::abs(off_of(end, line));
  return sum / static_cast<double>(std::max<std::size_t>(1, ends.size()));
}

// The latency is the median of those that fit each collective.
Line line_at(std::span<const RankExchanges> ranks, double ns_per_byte, double latency_ns,
             bool has_latency) {
  if (!has_latency) return {ns_per_byte, 0};
  std::vector<double> each;
  for (const ExchangeEnd& end : ends_of(ranks, ns_per_byte, latency_ns)) {
    each.push_back((end.took_ns() - end.bytes * ns_per_byte) / end.steps);
  }
  return {ns_per_byte, std::max(0.0, middle_of(std::move(each)))};
}

// By least squares through the four fifths nearest to a line.
Line refined(std::vector<ExchangeEnd> ends, const Line& near, bool has_latency) {
  std::ranges::stable_sort(ends, {},
                           [&](const ExchangeEnd& end) { return std::abs(off_of(end, near)); });
  ends.resize(std::max<std::size_t>(1, ends.size() * 4 / 5));
  double bb = 0, bs = 0, ss = 0, bt = 0, st = 0;
  for (const ExchangeEnd& end : ends) {
    bb += end.bytes * end.bytes;
    bs += end.bytes * end.steps;
    ss += static_cast<double>(end.steps) * end.steps;
    bt += end.bytes * end.took_ns();
    st += end.steps * end.took_ns();
  }
  const double determinant = bb * ss - bs * bs;
  if (!has_latency || determinant < 1e-9 * bb * ss) return {bb > 0 ? std::max(0.0, bt / bb) : 0, 0};
  Line line{(bt * ss - st * bs) / determinant, (st * bb - bt * bs) / determinant};
  if (line.latency_ns < 0) line = {std::max(0.0, bt / bb), 0};
  if (line.ns_per_byte < 0) line = {0, st / ss};
  return line;
}

// Whether the ratio of bytes to steps varies enough to determine a latency.
bool tells_apart(const std::vector<ExchangeEnd>& ends) {
  std::vector<double> of_a_step;
  for (const ExchangeEnd& end : ends) of_a_step.push_back(end.bytes / end.steps);
  std::ranges::sort(of_a_step);
  const std::size_t tenth = of_a_step.size() / 10;
  constexpr double enough = 1.5;
  return of_a_step[of_a_step.size() - 1 - tenth] > enough * of_a_step[tenth];
}

// Searches for the line with the smallest errors.
class LineSearch {
 public:
  LineSearch(std::span<const RankExchanges> ranks, bool has_latency)
      : ranks_(ranks), has_latency_(has_latency) {
    best_ = line_at(ranks_, 0, 0, has_latency_);
    off_ns_ = usual_off(ends_by(best_), best_);
  }

  void run() {
    constexpr double min_rate = 1e-4;  // ns a byte: 10 TB/s
    constexpr double max_rate = 1e6;   // and 1 kB/s
    double step = std::pow(10, 0.1);
    for (double rate = min_rate; rate < max_rate; rate *= step) attempt(rate);
    for (int halving = 0; halving < 30; ++halving) {
      step = std::sqrt(step);
      const double from = best_.ns_per_byte;
      attempt(from * step);
      attempt(from / step);
    }
    refine();
  }

  const Line& best() const { return best_; }
  double off_ns() const { return off_ns_; }  // of each collective, on average
  std::vector<ExchangeEnd> ends() const { return ends_by(best_); }

 private:
  std::vector<ExchangeEnd> ends_by(const Line& line) const {
    return ends_of(ranks_, line.ns_per_byte, line.latency_ns);
  }

  void attempt(double ns_per_byte) {
    const Line line = line_at(ranks_, ns_per_byte, best_.latency_ns, has_latency_);
    const double off = usual_off(ends_by(line), line);
    if (off >= off_ns_) return;
    off_ns_ = off;
    best_ = line;
  }

  // Nearest by either measure is as good.
  void refine() {
    constexpr int turns = 3;
    constexpr double about_as_near = 1.02;
    for (int turn = 0; turn < turns; ++turn) {
      const Line line = refined(ends(), best_, has_latency_);
      const double off = usual_off(ends_by(line), line);
      if (off > about_as_near * off_ns_) return;
      best_ = line;
      off_ns_ = std::min(off_ns_, off);
    }
  }

  std::span<const RankExchanges> ranks_;
  bool has_latency_;
  Line best_;
  double off_ns_ = 0;
};

}  // namespace

ExchangeFit fit_exchanges(std::span<const RankExchanges> ranks) {
  ExchangeFit fit;
  for (const RankExchanges& rank : ranks) fit.collectives += std::ssize(rank.ends_ns);
  if (fit.collectives == 0) return fit;
  LineSearch found(ranks, false);
  found.run();
  if (tells_apart(found.ends())) {
    fit.is_told_apart = true;
    LineSearch with_latency(ranks, true);
    with_latency.run();
    if (with_latency.off_ns() < found.off_ns()) found = with_latency;
  }
  fit.ns_per_byte = found.best().ns_per_byte;
  fit.latency_ns = found.best().latency_ns;
  for (const ExchangeEnd& end : found.ends()) fit.off_ns.push_back(off_of(end, found.best()));
  return fit;
}

}  // namespace pipesim
