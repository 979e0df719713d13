#include "sim/compare/gap.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/compare/attribution.h"

namespace pipesim {
namespace {

// The classes of values that both runs have, each as predicted or, once made, as measured.
class Classes final : public Changes {
 public:
  static constexpr std::array terms{Term::order, Term::compute,  Term::transfer,
                                    Term::wait,  Term::exchange, Term::launch};

  Classes(const Operations& operations, const CommonOrders& common,
          const std::array<Values, 2>& values)
      : operations_(operations),
        common_(common),
        values_(values),
        mixture_(values[predicted_side]),
        replay_(operations) {}

  std::size_t count() const override { return terms.size(); }
  void make(std::size_t change) override { put(terms[change], measured_side); }
  void undo(std::size_t change) override { put(terms[change], predicted_side); }
  std::int64_t value() override { return replay_.makespan_ns(common_.orders[order_], mixture_); }

 private:
  void put(Term term, Side side) {
    if (term == Term::order) {
      order_ = side;
      return;
    }
    const auto which = value_of(term);
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const bool is_of_it = term == Term::compute    ? !operations_.communicates(id)
                            : term == Term::transfer ? operations_.communicates(id)
                            : term == Term::wait     ? operations_.transfers(id)
                            : term == Term::exchange ? true
                                                     : !operations_.transfers(id);
      if (is_of_it) (mixture_.*which)[id] = (values_[side].*which)[id];
    }
  }

  const Operations& operations_;
  const CommonOrders& common_;
  const std::array<Values, 2>& values_;
  Values mixture_;
  Side order_ = predicted_side;
  Replay replay_;
};

}  // namespace

std::int64_t Gap::total_ns() const {
  return std::accumulate(terms.begin(), terms.end(), std::int64_t{0});
}

CommonOrders::CommonOrders(const Operations& operations, P2p mode)
    : orders{order_of(operations, predicted_side, mode, true),
             order_of(operations, measured_side, mode, true)} {
  const auto is_known = [](const std::optional<std::int64_t>& end) { return end.has_value(); };
  const bool repeats = operations.follows[measured_side] &&
                       std::ranges::all_of(operations.ended_before_ns[measured_side], is_known);
  for (Order& order : orders) {
    order.follows = operations.follows[measured_side];
    order.repeats = repeats;
  }
}

Gap gap_between(const Operations& operations, const CommonOrders& common,
                const std::array<Order, 2>& all, const std::array<Values, 2>& values) {
  Replay replay(operations);
  std::array<std::int64_t, 2> recorded{}, matched{};
  for (const Side side : both_sides) {
    Order alone = common.orders[side];
    alone.repeats = false;
    alone.follows = operations.follows[side];
    recorded[side] = replay.makespan_ns(all[side], values[side]);
    matched[side] = replay.makespan_ns(alone, values[side]);
  }
  Classes classes(operations, common, values);
  const std::int64_t first = classes.value();
  const std::vector<std::int64_t> shares = shares_of(classes);
  const std::int64_t last = std::accumulate(shares.begin(), shares.end(), first);
  Gap gap;
  for (std::size_t i = 0; i < shares.size(); ++i) gap[Classes::terms[i]] = shares[i];
  gap.beside_repetition_ns = {first - matched[predicted_side], matched[measured_side] - last};
  for (const std::int64_t ns : gap.beside_repetition_ns) gap[Term::launch] += ns;
  gap[Term::unmodelled] = matched[predicted_side] - recorded[predicted_side] +
                          recorded[measured_side] - matched[measured_side];
  return gap;
}

}  // namespace pipesim
