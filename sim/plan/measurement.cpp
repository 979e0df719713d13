#include "sim/plan/measurement.h"

#include <cmath>
#include <initializer_list>

namespace pipesim {
namespace {

// By how much parts differ, each without its sign, of a rank.
double difference(const Finalist& one, const Finalist& other,
                  std::initializer_list<TimePart> parts) {
  const auto of_rank = [](const Finalist& finalist, TimePart part) {
    return static_cast<double>(finalist.candidate->parts.of(part)) /
           static_cast<double>(finalist.candidate->prediction.metrics.ranks.size());
  };
  double sum = 0;
  for (const TimePart part : parts) sum += std::abs(of_rank(one, part) - of_rank(other, part));
  return sum;
}

bool computes_alike(const PlanPoint& one, const PlanPoint& other) {
  return static_cast<const PlanSplit&>(one) == other &&
         one.micro_batch_size == other.micro_batch_size &&
         one.sequence_parallel == other.sequence_parallel && one.recompute == other.recompute;
}

}  // namespace

Measurement cheapest_measurement(const PlanPoint& one, const Finalist& its, const PlanPoint& other,
                                 const Finalist& others, double error) {
  const double predicted =
      std::abs(static_cast<double>(its.outcome.time_ns - others.outcome.time_ns));
  const double exchanged = difference(its, others, {TimePart::closing});
  const double sent = difference(
      its, others, {TimePart::overlap, TimePart::messages, TimePart::slowdown, TimePart::p2p});
  if (error * (exchanged + sent) < predicted) {
    return computes_alike(one, other) ? Measurement::none : Measurement::block;
  }
  // What replicas exchange while ranks compute is waited for like a message.
  const auto exchanges_at_last = [](const PlanPoint& point) {
    return point.replicas.zero < 3 && !point.replicas.gathers_ahead && !point.replicas.bucket_bytes;
  };
  if (exchanges_at_last(one) && exchanges_at_last(other) && error * exchanged < predicted) {
    return Measurement::replica;
  }
  return Measurement::iteration;
}

}  // namespace pipesim
