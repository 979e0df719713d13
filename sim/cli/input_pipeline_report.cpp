#include "sim/cli/input_pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/input_report.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

std::string memory_text(const InputPrediction& prediction) {
  if (prediction.run.memory.empty()) return {};
  const auto fullest = std::ranges::max_element(prediction.run.memory, {}, &InputMemory::total);
  const auto rank = fullest - prediction.run.memory.begin();
  std::string text = fmt::format(
      "memory  rank {} is the fullest with {}: tables {}, optimizer {}, dense part {}, batches in "
      "flight {}, buffers {}\n",
      rank, format_bytes(fullest->total()), format_bytes(fullest->tables),
      format_bytes(fullest->optimizer), format_bytes(fullest->dense),
      format_bytes(fullest->batches), format_bytes(fullest->buffers));
  if (prediction.memory_cap_bytes) {
    text += fmt::format("        fits in {}\n", format_bytes(*prediction.memory_cap_bytes));
  }
  return text;
}

// "table-wise 20, row-wise 6".
std::string sharding_text(const InputPrediction& prediction) {
  if (!prediction.plan) return {};
  std::string text;
  for (const ShardingType sharding :
       {ShardingType::table_wise, ShardingType::row_wise, ShardingType::column_wise,
        ShardingType::data_parallel, ShardingType::table_row_wise}) {
    const auto count =
        std::ranges::count(prediction.plan->tables, sharding, &TableSharding::sharding);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, sharding_type_name(sharding));
  }
  const auto tables = static_cast<std::int64_t>(prediction.plan->tables.size());
  text = fmt::format("tables  {}: {}", plural(tables, "table"), text);
  if (prediction.plans_evaluated > 0) {
    text += fmt::format("; the best of {} tried", plural(prediction.plans_evaluated, "plan"));
  }
  return text + "\n";
}

std::string input_title(const InputRequest& request, int ranks) {
  if (!request.training) return plural(ranks, "rank");
  return fmt::format("{} on {} {} of {}, batches of {}", request.training->model.name, ranks,
                     request.training->cluster.device.name, request.training->cluster.name,
                     plural(request.training->batch_size, "sample"));
}

}  // namespace

std::string input_limits_text(const std::vector<InputLimit>& limits, std::int64_t steady_ns) {
  std::string text;
  for (const InputLimit& limit : limits) {
    // Less than a thousandth is not worth a line.
    if (steady_ns == 0 ||
        static_cast<double>(limit.gain_ns) * 1000 < static_cast<double>(steady_ns))
      continue;
    text += fmt::format(
        "{:>12}  {:>6}  {}\n", format_time(limit.gain_ns),
        format_percent(static_cast<double>(limit.gain_ns) / static_cast<double>(steady_ns)),
        limit.part->name);
  }
  if (text.empty())
    return "Limited by no single part: making any one free would not make it faster.\n";
  return "Limited by, and the time saved per batch if it were free:\n" + text;
}

std::string input_prediction_report(const InputPrediction& prediction,
                                    const std::vector<InputLimit>& limits,
                                    const Terminal& terminal) {
  std::string text = input_report(prediction.run, prediction.metrics, terminal) + "\n";
  text += wrap(memory_text(prediction) + sharding_text(prediction), terminal.width);
  return text + "\n" + input_limits_text(limits, prediction.metrics.steady_iteration_ns);
}

std::string input_programs_report(const InputRequest& request,
                                  const std::vector<InputPrediction>& predictions,
                                  const Terminal& terminal) {
  const auto of = [](const InputPrediction& one) { return one.metrics.steady_iteration_ns; };
  const std::int64_t base = of(predictions.front());
  const auto best = std::ranges::min_element(predictions, {}, of);
  std::vector<std::string> labels{"input pipeline"};
  Column steady{"a batch", {}}, gain{"to base", {}}, rate{"samples/s", {}}, exposed{"exposed", {}},
      in_flight{"in flight", {}}, memory{"memory", {}};
  for (const InputPrediction& one : predictions) {
    const bool is_stale = one.run.program.is_stale;
    labels.push_back(one.run.program.name + (is_stale ? " *" : ""));
    steady.cells.push_back(format_time(of(one)));
    gain.cells.push_back(
        base == 0
            ? ""
            : fmt::format("{:+.1f} %",
                          (static_cast<double>(of(one)) / static_cast<double>(base) - 1) * 100));
    rate.cells.push_back(one.run.batch_size == 0 ? ""
                                                 : format_rounded(one.metrics.samples_per_second));
    std::int64_t busy = 0;
    int batches = 0;
    for (const InputMetrics::Rank& rank : one.metrics.ranks) {
      busy += rank.busy_ns;
      batches = std::max(batches, rank.batches_in_flight);
    }
    const double all = static_cast<double>(one.metrics.makespan_ns) *
                       static_cast<double>(one.metrics.ranks.size());
    exposed.cells.push_back(all == 0 ? "" : format_percent(1 - static_cast<double>(busy) / all));
    in_flight.cells.push_back(std::to_string(batches));
    memory.cells.push_back(one.run.memory.empty()
                               ? ""
                               : format_bytes(one.peak_memory_bytes()) + (one.lack() ? " !" : ""));
  }
  std::string text =
      bold(wrap(fmt::format("{}: {} is the fastest, {} per batch\n",
                            input_title(request, predictions.front().run.program.ranks()),
                            best->run.program.name, format_time(of(*best))),
                terminal.width),
           terminal.colour) +
      "\n" +
      table(labels, {{"", {steady, gain, rate, exposed, in_flight, memory}}},
            static_cast<std::size_t>(terminal.width));
  text += wrap(
      "\na batch: steady state, per rank; exposed: the share of time in which the compute stream "
      "waits or exchanges, fill and drain included; in flight: batches on a rank at most\n"
      "* trains on rows one step stale: its losses differ\n",
      terminal.width);
  const auto lacking =
      std::ranges::find_if(predictions, [](const auto& one) { return one.lack().has_value(); });
  if (lacking != predictions.end()) {
    text += wrap(fmt::format("! does not fit in {}\n", format_bytes(*lacking->memory_cap_bytes)),
                 terminal.width);
  }
  return text;
}

}  // namespace pipesim::cli
