#include "exec/measure/device_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exec/measure/timing.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// Seconds of a kernel of inner dimension, or sequence, `size`: work / rate (1 + ramp / size).
struct Timed {
  double size = 0;
  double work = 0;
  double seconds = 0;
};

// The rate and the ramp that both have; without a ramp if the smaller one is no slower.
std::pair<double, std::int64_t> rate_and_ramp(const Timed& small, const Timed& large) {
  const double of_small = small.seconds / small.work;
  const double of_large = large.seconds / large.work;
  const double slope = (of_small - of_large) / (1 / small.size - 1 / large.size);
  if (slope <= 0) return {1 / of_large, 0};
  const double least = of_large - slope / large.size;
  // So steep a ramp is a cost of starting: then the large one's rate counts.
  if (least <= 0.5 * of_large) return {1 / of_large, 0};
  return {1 / least, std::llround(slope / least)};
}

constexpr int repeats = 15;

class Meter {
 public:
  Meter(Device& device, Number precision, const MeasuringEffort& effort)
      : device_(device), precision_(precision), effort_(effort) {}

  DeviceRates run() {
    result_.precision = precision_;
    const double before = copy("copies");
    norms();
    optimizer();
    starts();
    attention();
    products();
    const double after = copy("copies at the end");
    const double slower = 100 * (after / before - 1);
    if (slower > effort_.most_spread) {
      throw work_error(fmt::format(
          "copies take {:.0f} % longer at the end of measuring than at its beginning: the device "
          "throttles, or another process uses it; end that, let it cool, and measure again",
          slower));
    }
    return std::move(result_);
  }

 private:
  // The median of some repeats, in seconds; refuses unsteady ones.
  double seconds(const std::string& kernel, const Run& run) {
    const Effort effort{.repeats = repeats, .repeat_ms = effort_.repeat_ms};
    time_of(device_, 3, run);
    const int calls = calls_for(time_of(device_, 3, run), effort);
    return middle(kernel, [&] { return time_of(device_, calls, run); });
  }

  template <typename Time>
  double middle(const std::string& kernel, Time time) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(time());
    std::ranges::sort(times);
    const std::size_t quarter = times.size() / 4;
    const double median = times[times.size() / 2];
    const double spread = 100 * (times[times.size() - 1 - quarter] - times[quarter]) / median;
    result_.spreads.push_back({kernel, spread});
    if (spread > effort_.most_spread) {
      throw work_error(fmt::format(
          "{}: times spread by {:.0f} %, over {:g} %: another process uses the device, or it "
          "throttles; end that, or allow more with --most-spread",
          kernel, spread, effort_.most_spread));
    }
    return median / 1e3;
  }

  std::int64_t scaled(std::int64_t size) const {
    return std::max<std::int64_t>(1, size / effort_.scale);
  }
  std::int64_t value() const { return bytes_of(precision_); }

  double copy(const std::string& name) {
    const std::int64_t count = scaled(std::int64_t{1} << 28);
    const RandomNumbers from(device_, count, precision_, 1);
    const RandomNumbers to(device_, count, precision_, 2);
    const double time =
        seconds(name, [&](int /*call*/) { device_.copy(count, from.array(), to.array()); });
    if (result_.stream == 0) {
      result_.stream = static_cast<double>(2 * value() * count) / time;
    }
    return time;
  }

  void norms() {
    const std::int64_t rows = scaled(8192);
    const std::int64_t columns = scaled(8192);
    const Rotation x(device_, rows * columns, precision_, 1);
    const Rotation y(device_, rows * columns, precision_, 2);
    const RandomNumbers weight(device_, columns, precision_, 3);
    const RandomNumbers bias(device_, columns, precision_, 4);
    const RandomNumbers mean(device_, rows, Number::float32, 5);
    const RandomNumbers deviation(device_, rows, Number::float32, 6);
    const double time = seconds("layer norm", [&](int call) {
      device_.layer_norm(rows, columns, x[call].array(), weight.array(), bias.array(),
                         y[call].array(), mean.floats(), deviation.floats());
    });
    result_.norm = static_cast<double>(2 * value() * rows * columns) / time;
  }

  void optimizer() {
    const std::int64_t count = scaled(std::int64_t{1} << 27);
    const RandomNumbers weights(device_, count, Number::float32, 1);
    const RandomNumbers gradients(device_, count, Number::float32, 2);
    const RandomNumbers first(device_, count, Number::float32, 3);
    const RandomNumbers second(device_, count, Number::float32, 4);
    device_.fill(count, second.array(), 0.1F);
    const double time = seconds("AdamW", [&](int /*call*/) {
      device_.adamw(count, {.learning_rate = 1e-9F}, gradients.floats(), weights.floats(),
                    first.floats(), second.floats(), Array());
    });
    // Reads four values and writes three.
    result_.optimizer = static_cast<double>(7 * 4 * count) / time;
  }

  void starts() {
    const RandomNumbers x(device_, 64, precision_, 1);
    const double time =
        seconds("small kernels", [&](int /*call*/) { device_.fill(64, x.array(), 1); });
    result_.start_ns = std::llround(1e9 * time);
  }

  void attention() {
    Timed times[2][2];  // forward and backward, by length
    for (const bool is_long : {false, true}) {
      AttentionShape shape;
      shape.sequence = scaled(is_long ? 8192 : 2048);
      shape.batch = is_long ? 1 : 4;
      shape.heads = effort_.scale == 1 ? 32 : 4;
      shape.head_size = effort_.scale == 1 ? 128 : 64;
      shape.linear = true;
      const std::int64_t rows = shape.rows();
      const RandomNumbers qkv(device_, rows * shape.qkv_size(), precision_, 1);
      const RandomNumbers state(device_, device_.attention_state(shape), Number::float32, 2);
      const RandomNumbers y(device_, rows * shape.hidden(), precision_, 3);
      const RandomNumbers dy(device_, rows * shape.hidden(), precision_, 4);
      const RandomNumbers dqkv(device_, rows * shape.qkv_size(), precision_, 5);
      const auto forward = [&](int /*call*/) {
        device_.attention(shape, qkv.array(), state.floats(), y.array());
      };
      const auto backward = [&](int /*call*/) {
        device_.attention_backward(shape, qkv.array(), state.floats(), y.array(), dy.array(),
                                   dqkv.array());
      };
      const auto length = static_cast<double>(shape.sequence);
      // Half of all pairs of positions; two products forward, five backward.
      const double flops = 2 * length * length * static_cast<double>(shape.batch * shape.hidden());
      const std::string of = fmt::format(", sequences of {}", shape.sequence);
      times[0][is_long ? 1 : 0] = {length, flops, seconds("attention, forward" + of, forward)};
      // A backward overwrites the state: a forward comes before each, and is not timed.
      const double back = middle("attention, backward" + of, [&] {
        forward(0);
        return time_of(device_, 1, backward);
      });
      times[1][is_long ? 1 : 0] = {length, 2.5 * flops, back};
    }
    for (const int way : {0, 1}) {
      MeasuredAttention& one = way == 0 ? result_.forward : result_.backward;
      std::tie(one.flops_per_second, one.ramp) = rate_and_ramp(times[way][0], times[way][1]);
    }
  }

  Timed product(std::int64_t m, std::int64_t n, std::int64_t k, bool is_sustained) {
    m = scaled(m);
    n = scaled(n);
    k = scaled(k);
    const RandomNumbers a(device_, m * k, precision_, 1);
    const RandomNumbers b(device_, n * k, precision_, 2);
    const RandomNumbers c(device_, m * n, precision_, 3);
    const Run run = [&](int /*call*/) {
      device_.matrix_product(Transpose::b, m, n, k, a.array(), b.array(), c.array(), false);
    };
    const std::string name =
        fmt::format("product of {} x {} x {}{}", m, n, k, is_sustained ? ", sustained" : "");
    const double flops =
        2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (!is_sustained) return {static_cast<double>(k), flops, seconds(name, run)};
    // The first half heats the device, the second counts.
    const double one = time_of(device_, 1, run) / 1e3;
    const int calls = std::max(1, static_cast<int>(effort_.seconds / 2 / one / repeats));
    time_of(device_, calls * repeats, run);
    return {static_cast<double>(k), flops,
            middle(name, [&] { return time_of(device_, calls, run); })};
  }

  void products() {
    const Timed small = product(4096, 4096, 1024, false);
    const Timed large = product(2048, 8192, 8192, false);
    std::tie(result_.product_flops_per_second, result_.product_ramp) = rate_and_ramp(small, large);
    const Timed hot = product(16384, 8192, 8192, true);
    const double ramp = 1 + static_cast<double>(result_.product_ramp) / hot.size;
    const double cool = hot.work * ramp / result_.product_flops_per_second;
    result_.sustained = std::min(1.0, cool / hot.seconds);
  }

  Device& device_;
  Number precision_;
  MeasuringEffort effort_;
  DeviceRates result_;
};

}  // namespace

DeviceRates measure_rates(Device& device, Number precision, const MeasuringEffort& effort) {
  return Meter(device, precision, effort).run();
}

}  // namespace pipesim::exec
