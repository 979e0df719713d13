#include "bench/gpu/operators.h"

#include <vector>

#include "exec/measure/timing.h"

namespace pipesim::exec {
namespace {

// Whole numbers on a device, different in each row if there are enough.
class Choices {
 public:
  Choices(Device& device, std::int64_t count, std::int64_t below) : device_(device) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::int64_t value = 0;
    for (std::int32_t& each : values) {
      each = static_cast<std::int32_t>(value);
      value = (value + 7919) % below;
    }
    const std::int64_t bytes = 4 * count;
    data_ = static_cast<std::int32_t*>(device.allocate(bytes));
    device.upload(data_, values.data(), bytes);
  }
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  ~Choices() { device_.release(data_); }

  const std::int32_t* data() const { return data_; }

 private:
  Device& device_;
  std::int32_t* data_ = nullptr;
};

const Dropout tenth{{.seed = 1}, 0.1F};

void elements(Device& d, const OperatorShape& s, const Report& report) {
  const std::int64_t n = s.count();
  const std::int64_t e = bytes_of(s.precision);
  const Rotation a(d, n, s.precision, 1);
  const Rotation b(d, n, s.precision, 2);
  const Rotation c(d, n, s.precision, 3);
  const RandomNumbers bias(d, s.columns, s.precision, 4);
  const RandomNumbers sums(d, s.columns, Number::float32, 5);
  report("copy within the device", 2 * e * n,
         [&](int i) { d.copy(n, a[i].array(), b[i].array()); });
  report("fill", e * n, [&](int i) { d.fill(n, c[i].array(), 1); });
  report("add", 3 * e * n, [&](int i) { d.add(n, a[i].array(), b[i].array(), c[i].array()); });
  report("dropout", 2 * e * n, [&](int i) { d.dropout(n, a[i].array(), tenth, c[i].array()); });
  report("add_bias", 2 * e * n,
         [&](int i) { d.add_bias(s.rows, s.columns, bias.array(), c[i].array()); });
  report("add_column_sums", e * n,
         [&](int i) { d.add_column_sums(s.rows, s.columns, a[i].array(), sums.floats()); });
  report("gelu_backward", 3 * e * n,
         [&](int i) { d.gelu_backward(n, a[i].array(), b[i].array(), c[i].array()); });
  report("bias_dropout_add, probability 0", 3 * e * n, [&](int i) {
    d.bias_dropout_add(s.rows, s.columns, bias.array(), a[i].array(), b[i].array(), {},
                       c[i].array());
  });
  report("bias_dropout_add", 3 * e * n, [&](int i) {
    d.bias_dropout_add(s.rows, s.columns, bias.array(), a[i].array(), b[i].array(), tenth,
                       c[i].array());
  });
  // Last, since it adds to `a` repeatedly, which gives large numbers; these take no longer.
  report("bias_gelu", 3 * e * n,
         [&](int i) { d.bias_gelu(s.rows, s.columns, bias.array(), a[i].array(), c[i].array()); });
}

void norms(Device& d, const OperatorShape& s, const Report& report) {
  const std::int64_t n = s.count();
  const std::int64_t e = bytes_of(s.precision);
  const Rotation x(d, n, s.precision, 1);
  const Rotation dy(d, n, s.precision, 2);
  const Rotation residual(d, n, s.precision, 3);
  const Rotation y(d, n, s.precision, 4);
  const RandomNumbers gamma(d, s.columns, s.precision, 5);
  const RandomNumbers beta(d, s.columns, s.precision, 6);
  const RandomNumbers mean(d, s.rows, Number::float32, 7);
  const RandomNumbers rstd(d, s.rows, Number::float32, 8);
  const RandomNumbers dgamma(d, s.columns, Number::float32, 9);
  const RandomNumbers dbeta(d, s.columns, Number::float32, 10);
  report("layer_norm", 2 * e * n, [&](int i) {
    d.layer_norm(s.rows, s.columns, x[i].array(), gamma.array(), beta.array(), y[i].array(),
                 mean.floats(), rstd.floats());
  });
  report("layer_norm_backward", 4 * e * n, [&](int i) {
    d.layer_norm_backward(s.rows, s.columns, dy[i].array(), x[i].array(), gamma.array(),
                          mean.floats(), rstd.floats(), residual[i].array(), y[i].array(),
                          dgamma.floats(), dbeta.floats());
  });
}

// Weights are float32, whatever the precision.
void optimizer(Device& d, const OperatorShape& s, const Report& report) {
  const std::int64_t n = s.count();
  const bool rounds = s.precision != Number::float32;
  const Rotation weights(d, n, Number::float32, 1);
  const Rotation gradients(d, n, Number::float32, 2);
  const Rotation first(d, n, Number::float32, 3);
  const Rotation second(d, n, Number::float32, 4);
  for (int set = 0; set < Rotation::sets; ++set) d.fill(n, second[set].array(), 0.1F);
  const Rotation rounded(d, rounds ? n : 1, s.precision, 5);
  void* sum = d.allocate(sizeof(double));
  report("sum_of_squares", 4 * n,
         [&](int i) { d.sum_of_squares(n, gradients[i].floats(), static_cast<double*>(sum)); });
  d.release(sum);
  if (rounds) {
    report("copy, rounded", (4 + bytes_of(s.precision)) * n,
           [&](int i) { d.copy(n, weights[i].array(), rounded[i].array()); });
  }
  report("adamw", (7 * 4 + (rounds ? bytes_of(s.precision) : 0)) * n, [&](int i) {
    d.adamw(n, {.learning_rate = 1e-9F}, gradients[i].floats(), weights[i].floats(),
            first[i].floats(), second[i].floats(), rounds ? rounded[i].array() : Array());
  });
}

void ends(Device& d, const OperatorShape& s, const Report& report) {
  const std::int64_t n = s.count();
  const std::int64_t e = bytes_of(s.precision);
  const std::int64_t positions_count = s.sequence * s.columns;
  const Choices tokens(d, s.rows, s.words);
  {
    const Rotation y(d, n, s.precision, 1);
    const Rotation table(d, s.words * s.columns, s.precision, 2);
    const RandomNumbers positions(d, positions_count, s.precision, 3);
    report("embed", 2 * e * n + e * positions_count, [&](int i) {
      d.embed(s.rows, s.columns, s.sequence, tokens.data(), table[i].array(), positions.array(),
              y[i].array());
    });
  }
  {
    const Rotation dy(d, n, s.precision, 1);
    const Rotation dtable(d, s.words * s.columns, Number::float32, 2);
    const RandomNumbers dpositions(d, positions_count, Number::float32, 3);
    report("embed_backward", (e + 8) * n + 8 * positions_count, [&](int i) {
      d.embed_backward(s.rows, s.columns, s.sequence, tokens.data(), dy[i].array(),
                       dtable[i].floats(), dpositions.floats());
    });
  }
  const Choices targets(d, s.class_rows, s.words);
  const Rotation x(d, s.class_rows * s.words, s.precision, 1);
  const RandomNumbers losses(d, s.class_rows, Number::float32, 2);
  report("cross_entropy", 2 * e * s.class_rows * s.words, [&](int i) {
    d.cross_entropy(s.class_rows, s.words, targets.data(), x[i].array(), losses.floats());
  });
}

}  // namespace

void each_operator(Device& device, const OperatorShape& shape, const Report& report) {
  elements(device, shape, report);
  norms(device, shape, report);
  optimizer(device, shape, report);
  ends(device, shape, report);
}

}  // namespace pipesim::exec
