#include "exec/cli/device_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "exec/cli/parse_number.h"
#include "exec/device/devices.h"
#include "exec/measure/device_rates.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/command/outputs.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

Json fact(Json value, const std::string& source) {
  return {{"value", std::move(value)}, {"source", source}};
}

std::string rate(double per_second, std::string_view unit) {
  return fmt::format("{:.5g}{}", per_second / 1e9, unit);
}

Json attention_json(const MeasuredAttention& one, const std::string& source) {
  return {{"rate", fact(rate(one.flops_per_second, "GFLOP/s"), source)},
          {"ramp", fact(one.ramp, source)}};
}

// A pipesim-device (FORMAT.md). Without a data sheet, the best measured rate stands for the peak.
Json device_json(const std::string& name, const std::string& title, const DeviceCapacity& capacity,
                 const DeviceRates& rates) {
  const std::string source = "measured by pipeexec device";
  const bool is_wide = rates.precision == Number::float32;
  Json peak;
  peak[is_wide ? "fp32" : "bf16"] =
      fact(rate(rates.product_flops_per_second, "GFLOP/s"), source + ", as no data sheet is known");
  Json library;
  library["forward"] = attention_json(rates.forward, source);
  library["backward"] = attention_json(rates.backward, source);
  Json attention;
  attention["pipeexec"] = std::move(library);
  Json kernels;
  kernels["product_rate"] = fact(rate(rates.product_flops_per_second, "GFLOP/s"), source);
  kernels["product_ramp"] = fact(rates.product_ramp, source);
  kernels["sustained"] = fact(rates.sustained, source);
  kernels["stream"] = fact(rate(rates.stream, "GB/s"), source);
  kernels["norm"] = fact(rate(rates.norm, "GB/s"), source);
  kernels["optimizer"] = fact(rate(rates.optimizer, "GB/s"), source);
  kernels["start"] = fact(fmt::format("{}ns", rates.start_ns), source);
  kernels["attention"] = std::move(attention);
  Json json;
  json["format"] = "pipesim-device";
  json["version"] = 1;
  json["name"] = name;
  json["title"] = title;
  json["peak"] = std::move(peak);
  json["memory"] = fact(fmt::format("{}B", capacity.memory_bytes), "what the device says");
  json["memory_bandwidth"] = fact(rate(rates.stream, "GB/s"), source + ": a copy's");
  json["multiprocessors"] =
      fact(capacity.multiprocessors, "what the device says; a CPU computes on one thread");
  json["kernels"] = std::move(kernels);
  json["software"] = {{"base", "pipeexec"}};
  return json;
}

void measure(const DeviceFlags& flags) {
  const std::string name = flags.device.value_or("cpu");
  check_outputs({{"the device", flags.output, true}});
  if (!flags.output->ends_with(".json")) {
    throw input_error(
        fmt::format("--output {}: pipesim takes files that end in .json; give such a "
                    "name",
                    printable(*flags.output)));
  }
  if (flags.name && strip(*flags.name).empty()) {
    throw input_error("--name: give the device a name");
  }
  if (name == emulated_device) {
    throw input_error("--device emulated: it has no kernels to measure; give cpu or a GPU");
  }
  const bool is_gpu = names_a_gpu(name);
  MeasuringEffort effort;
  if (!is_gpu) {
    effort.scale = 8;
    effort.repeat_ms = 40;
    effort.most_spread = 25;
  }
  if (flags.seconds) {
    effort.seconds =
        parse_number<double>(*flags.seconds, "--seconds", 0.01, 60.0, "seconds from 0.01 to 60");
  } else if (!is_gpu) {
    effort.seconds = 1;
  }
  if (flags.most_spread) {
    effort.most_spread = parse_number<double>(*flags.most_spread, "--most-spread", 0.0, 1e6,
                                              "percent from 0 to 1000000");
  }
  if (flags.small) {
    effort.seconds = 0.05;
    effort.scale = 64;
    effort.repeat_ms = 5;
  }
  OutputFile file(*flags.output);
  const std::unique_ptr<Device> device = make_device(name);
  device->enter_thread();
  const Number precision = is_gpu ? Number::bfloat16 : Number::float32;
  DeviceRates rates;
  try {
    rates = measure_rates(*device, precision, effort);
  } catch (const Error& error) {
    throw work_error(fmt::format("{}: {}", device_name(name, 0), error.what()));
  }
  const std::string title = fmt::format("{}, measured", device->description());
  file.write(
      device_json(flags.name.value_or(device_name(name, 0)), title, device->capacity(), rates)
          .dump(2) +
      "\n");
  file.commit();
  const auto unsteadiest = std::ranges::max_element(rates.spreads, {}, &MeasuredSpread::percent);
  const std::string text = fmt::format(
      "{}: products {}, sustained {:.0f} % of that; copies {}; attention {} forward, {} "
      "backward. Least steady: {}, by {:.1f} %.",
      printable(*flags.output), rate(rates.product_flops_per_second, " GFLOP/s"),
      100 * rates.sustained, rate(rates.stream, " GB/s"),
      rate(rates.forward.flops_per_second, " GFLOP/s"),
      rate(rates.backward.flops_per_second, " GFLOP/s"), unsteadiest->kernel, unsteadiest->percent);
  print(fmt::format("{}\n\npipesim --cluster {} predicts with it.\n",
                    wrap(text, standard_output().width), printable(*flags.output)));
}

}  // namespace

void add_device(CommandLine& program, DeviceFlags& flags, const std::optional<Launch>& launch) {
  CommandLine& command =
      program.add_command("device", "Measures a device's kernels, for predictions.");
  command.add_flags(
      "",
      {{"--device", &flags.device, "cpu|cuda:N|hip:N", "which one; default cpu",
        [] {
          return std::vector<std::string>{"cuda", "hip"};
        }},
       FlagHelp("-o,--output", &flags.output, "FILE.json", "pipesim-device to write").required(),
       {"--name", &flags.name, "NAME", "its name in reports; default the device's"},
       {"--seconds", &flags.seconds, "S", "of the sustained product; default 2, on a CPU 1"},
       {"--small", &flags.small, "tiny sizes, to try it out"},
       {"--most-spread", &flags.most_spread, "PERCENT",
        "refuses less steady kernels; default 15, CPU 25"}});
  command.set_footer(
      "Copies, norms, an optimizer's step, attention and products, one by one. A device\n"
      "that another process uses, or that throttles, is refused.\n"
      "\n"
      "Example:\n"
      "  pipeexec device --device cuda:0 -o mine.json\n"
      "  pipesim --schedule 1f1b --stages 1 --microbatches 8 --model gpt2-xl \\\n"
      "    --cluster mine.json");
  command.set_work([&flags, &launch] {
    if (launch && launch->ranks > 1) {
      throw input_error(
          fmt::format("{} has started {} of device; one is enough, without a launcher",
                      launch->launcher, launch->ranks));
    }
    measure(flags);
  });
}

}  // namespace pipesim::exec
