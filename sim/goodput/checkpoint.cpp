#include "sim/goodput/checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "traces/base/error.h"
#include "traces/base/rate.h"
#include "traces/base/text.h"

namespace pipesim {

std::int64_t checkpoint_bytes(const Model& model, Precision precision) {
  constexpr std::int64_t moments = 8;
  constexpr std::int64_t master = 4;
  const std::int64_t value = bytes_of(precision);
  const std::int64_t each = moments + master + (value == 4 ? 0 : value);
  const std::int64_t parameters = model.parameters();
  if (parameters > max_bytes / each) {
    throw input_error(
        fmt::format("--model: a checkpoint of {} has more than {}; give a smaller model",
                    plural(parameters, "parameter"), format_bytes(max_bytes)));
  }
  return parameters * each;
}

SaveRate parse_save_rate(std::string_view text, std::string_view where) {
  constexpr std::string_view each = "/device";
  text = strip(text);
  SaveRate rate;
  rate.of_each_device = text.ends_with(each);
  if (rate.of_each_device) text.remove_suffix(each.size());
  double number = 1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number == 0) {
    throw input_error(
        fmt::format("{}: a rate of 0 never saves anything; give one such as 2GB/s", where));
  }
  rate.bytes_per_second = parse_bytes_per_second(text, where);
  return rate;
}

std::int64_t moving_ns(std::int64_t bytes, const SaveRate& rate, std::optional<int> devices,
                       std::string_view where) {
  std::int64_t together = rate.bytes_per_second;
  if (rate.of_each_device) {
    if (!devices) {
      throw input_error(fmt::format(
          "{}: is per device, and the number of devices is not known; give --devices", where));
    }
    if (together > std::numeric_limits<std::int64_t>::max() / *devices) {
      bytes = (bytes + *devices - 1) / *devices;
    } else {
      together *= *devices;
    }
  }
  const std::int64_t ns = occupied_ns(bytes, together);
  if (ns > max_duration_ns) {
    throw input_error(fmt::format("{}: {} take more than {}; give a faster one", where,
                                  format_bytes(bytes), format_duration(max_duration_ns)));
  }
  return ns;
}

}  // namespace pipesim
