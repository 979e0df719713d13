#include "sim/cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/shell_command.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/plan/measurement.h"
#include "sim/request/result_json.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

CostModel model_of(const PlanSpace& space, const PlanPoint& point) {
  return space.training(point).with_ranks(point.stages);
}

std::vector<std::string> command_words(const std::vector<std::string>& flags,
                                       const PlanSpace& space, const PlanPoint& point,
                                       const LayersOfStages& layout) {
  std::vector<std::string> words{"pipesim"};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::vector<std::string> own = space.flags(point);
  for (const std::string& flag : own) {
    if (flag.starts_with("--")) {
      words.push_back(flag);
    } else {
      words.back() += " " + flag;
    }
  }
  if (layout) words.push_back(fmt::format("--layout {}", fmt::join(*layout, ",")));
  return words;
}

double loss_of(const PlanOutcome& one, const PlanOutcome& best) {
  return static_cast<double>(one.time_ns) / static_cast<double>(best.time_ns) - 1;
}

double more_memory(const PlanOutcome& one, const PlanOutcome& best) {
  return static_cast<double>(one.memory_bytes) / static_cast<double>(best.memory_bytes) - 1;
}

std::string verdict(const PlanView& view, const Terminal& terminal) {
  const PlanQuestion& question = view.space.question();
  const Cluster& cluster = question.training.cluster;
  std::string text =
      fmt::format("{} on {} {} of {}, {}: ", printable(question.training.model.name),
                  format_count(question.devices), printable(cluster.device.name),
                  printable(cluster.name), plural(question.global_batch, "sequence"));
  const PlanOutcome& best = view.answer.top.front().outcome;
  const PlanPoint point = view.space.axes().at(best.index);
  const CostModel model = model_of(view.space, point);
  const auto band = error_band(model);
  text += fmt::format("{}{} per iteration, {:.0f} % MFU, {}{} of {}, with {}; {}",
                      format_time(best.time_ns), band_text(band),
                      model.mfu(view.space.microbatches(point), best.time_ns) * 100,
                      format_bytes(best.memory_bytes), band_text(memory_error_band(model)),
                      format_bytes(view.memory_cap_bytes), plan_layout_words(view.space, point),
                      validation_text(cluster, band));
  return bold(wrap(text, terminal.width), terminal.colour) + "\n";
}

// Whether the best is sure to fit, and what is faster, but is not.
std::string memory_doubt(const PlanView& view, int width) {
  const PlanOutcome& best = view.answer.top.front().outcome;
  const TrainingRequest& training = view.space.question().training;
  const auto band = memory_error_band(training.model, training.cluster);
  const auto fit = [&](const PlanOutcome& one) {
    return fit_of(one.memory_bytes, view.memory_cap_bytes, training.cluster.device.memory_bytes,
                  band);
  };
  if (fit(best) == Fit::may_not_fit) {
    return wrap(fmt::format("It may not fit: {}. No layout is sure to.\n", memory_band_text(*band)),
                width) +
           "\n";
  }
  if (!view.riskier) return {};
  const PlanOutcome& riskier = view.riskier->outcome;
  const PlanPoint point = view.space.axes().at(riskier.index);
  return wrap(fmt::format(
                  "Faster, but may not fit: {}, {:.2f} % less, with {}, up to {} of {}: {}.\n",
                  format_time(riskier.time_ns), -100 * loss_of(riskier, best),
                  format_bytes(riskier.memory_bytes),
                  format_bytes(static_cast<std::int64_t>(static_cast<double>(riskier.memory_bytes) *
                                                         (1 + band->fraction))),
                  format_bytes(view.memory_cap_bytes), memory_band_text(*band)),
              width) +
         "\n" +
         command_text(command_words(view.flags, view.space, point, view.riskier->layout), "  ",
                      width) +
         "\n";
}

std::string overlap_text(const PlanView& view, int width) {
  if (!view.without_overlap_ns) return {};
  const PlanOutcome& best = view.answer.top.front().outcome;
  return wrap(fmt::format("Assumed: tensor-parallel exchanges overlap their GEMMs, as with "
                          "Megatron-LM's --tp-comm-overlap; without, {}, {:.1f} % more "
                          "(--tensor-overlap reductions).\n",
                          format_time(*view.without_overlap_ns),
                          100 * loss_of({0, *view.without_overlap_ns, 0}, best)),
              width) +
         "\n";
}

std::string nearby_batch_text(const PlanView& view, int width) {
  if (!view.nearby) return {};
  const PlanSpace& space = view.space;
  const PlanPoint best = space.axes().at(view.answer.top.front().outcome.index);
  std::string text = fmt::format(
      "With --global-batch {} an iteration takes {}, {:.0f} % less per "
      "sequence",
      view.nearby->sequences, format_time(view.nearby->best.time_ns), view.nearby->gain * 100);
  if (view.nearby->data_parallel > space.data_parallel(best)) {
    text += fmt::format(
        ": {} share {} evenly, but not {}", plural(view.nearby->data_parallel, "replica"),
        format_count(view.nearby->sequences), format_count(space.question().global_batch));
  }
  return wrap(text + ".\n", width) + "\n";
}

// "3 pass 25MB ahead"
std::string zero_text(const PlanReplicas& replicas) {
  std::string text = std::to_string(replicas.zero);
  if (replicas.within_node) text += " node";
  if (replicas.gather) text += fmt::format(" {}", gather_name(*replicas.gather));
  if (replicas.bucket_bytes) text += fmt::format(" {}MB", *replicas.bucket_bytes / 1'000'000);
  if (replicas.gathers_ahead) text += " ahead";
  return text;
}

// "embedding + 20, 21 + head"
std::string split_text(std::vector<int> layers) {
  --layers.front();
  --layers.back();
  return fmt::format("embedding + {} + head", fmt::join(layers, ", "));
}

// "4 (+0.12 %), 8 (+0.30 %)": other numbers of chunks that split work alike and lose 1 % at most,
// all with layers dealt out as usual. Of those that were evaluated.
std::string variants_text(const PlanView& view, const Finalist& one) {
  constexpr double max_loss = 0.01;
  const PlanAxes& axes = view.space.axes();
  const PlanPoint own = axes.at(one.outcome.index);
  std::map<int, std::int64_t> fastest;  // by chunks
  for (const PlanOutcome& other : view.answer.result.evaluated) {
    if (axes.split_of(other.index) != axes.split_of(one.outcome.index)) continue;
    const auto [found, is_new] =
        fastest.try_emplace(axes.at(other.index).schedule.chunks, other.time_ns);
    if (!is_new) found->second = std::min(found->second, other.time_ns);
  }
  fastest.erase(own.schedule.chunks);
  std::vector<std::string> parts;
  for (const auto& [chunks, time_ns] : fastest) {
    const double loss = static_cast<double>(time_ns) / static_cast<double>(one.even_ns) - 1;
    if (loss <= max_loss) parts.push_back(fmt::format("{} (+{:.2f} %)", chunks, loss * 100));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool any_of(const PlanView& view, const std::vector<PlanOutcome>& outcomes,
            int PlanSplit::*degree) {
  return std::ranges::any_of(outcomes, [&](const PlanOutcome& one) {
    return view.space.axes().at(one.index).*degree > 1;
  });
}

std::string split_legend(const PlanView& view, const std::vector<PlanOutcome>& outcomes) {
  std::string text;
  if (any_of(view, outcomes, &PlanSplit::context_parallel)) text += " c context-parallel ranks,";
  if (any_of(view, outcomes, &PlanSplit::expert_parallel)) {
    text += " e ranks that share out experts, x those that share each,";
  }
  return text;
}

// One row a layout: `marks` stand before each.
std::string layouts_table(const PlanView& view, const std::vector<PlanOutcome>& outcomes,
                          const std::vector<std::string>& labels, const PlanOutcome& best,
                          std::size_t width) {
  std::int64_t most_bytes = 0;
  for (const PlanOutcome& one : outcomes) most_bytes = std::max(most_bytes, one.memory_bytes);
  constexpr std::int64_t gibibyte = 1 << 30;
  constexpr std::int64_t mebibyte = 1 << 20;
  const bool is_small = most_bytes < 10 * gibibyte;
  std::int64_t longest = 0;
  for (const PlanOutcome& one : outcomes) longest = std::max(longest, one.time_ns);
  const TableUnit unit = table_unit(longest);
  std::vector<Column> columns;
  const auto add = [&](std::string name, auto text_of) {
    Column& column = columns.emplace_back();
    column.name = std::move(name);
    for (const PlanOutcome& one : outcomes) {
      column.cells.push_back(text_of(one, view.space.axes().at(one.index)));
    }
  };
  const auto add_number = [&](const char* name, auto number_of) {
    add(name, [&](const PlanOutcome&, const PlanPoint& point) {
      return std::to_string(number_of(point));
    });
  };
  add(std::string(unit.name),
      [&](const PlanOutcome& one, const PlanPoint&) { return unit.text(one.time_ns); });
  add("+ %", [&](const PlanOutcome& one, const PlanPoint&) {
    const bool is_of_memory = view.objective == PlanObjective::memory;
    return fmt::format("{:.2f}",
                       (is_of_memory ? more_memory(one, best) : loss_of(one, best)) * 100);
  });
  add(is_small ? "MiB" : "GiB", [&](const PlanOutcome& one, const PlanPoint&) {
    return fmt::format("{:.1f}", static_cast<double>(one.memory_bytes) /
                                     static_cast<double>(is_small ? mebibyte : gibibyte));
  });
  add_number("t", [](const PlanPoint& point) { return point.tensor_parallel; });
  if (any_of(view, outcomes, &PlanSplit::context_parallel)) {
    add_number("c", [](const PlanPoint& point) { return point.context_parallel; });
  }
  if (any_of(view, outcomes, &PlanSplit::expert_parallel)) {
    add("e", [](const PlanOutcome&, const PlanPoint& point) {
      return point.expert_tensor_parallel == 1
                 ? std::to_string(point.expert_parallel)
                 : fmt::format("{}x{}", point.expert_parallel, point.expert_tensor_parallel);
    });
  }
  add_number("p", [](const PlanPoint& point) { return point.stages; });
  add_number("v", [](const PlanPoint& point) { return point.schedule.chunks; });
  add_number("d", [&](const PlanPoint& point) { return view.space.data_parallel(point); });
  add_number("b", [](const PlanPoint& point) { return point.micro_batch_size; });
  add("seq", [](const PlanOutcome&, const PlanPoint& point) {
    return std::string(point.sequence_parallel ? "yes" : "no");
  });
  add("ZeRO", [](const PlanOutcome&, const PlanPoint& point) { return zero_text(point.replicas); });
  add("schedule", [](const PlanOutcome&, const PlanPoint& point) {
    return std::string(point.schedule.family->name);
  });
  add("recompute",
      [](const PlanOutcome&, const PlanPoint& point) { return recompute_name(point.recompute); });
  std::vector<ColumnGroup> groups;
  for (Column& column : columns) groups.push_back({"", {std::move(column)}});
  return table(labels, groups, width);
}

// The best, numbered; one whose layers are split anew has a mark.
std::string top_table(const PlanView& view, std::size_t width) {
  const std::vector<Finalist>& top = view.answer.top;
  std::vector<PlanOutcome> outcomes;
  std::vector<std::string> labels{""};
  bool any_split = false, any_remark = false;
  for (std::size_t i = 0; i < top.size(); ++i) {
    outcomes.push_back(top[i].outcome);
    labels.push_back(fmt::format("{}{}", i + 1, top[i].layout ? "*" : ""));
    any_split = any_split || top[i].layout;
  }
  std::string out = layouts_table(view, outcomes, labels, outcomes.front(), width);
  out += wrap(
      fmt::format("+ % more {} than the best, t tensor-parallel ranks,{} p stages, v chunks per "
                  "rank, d replicas, b micro-batch size, seq sequence parallelism; ZeRO: "
                  "stage, --gather, --bucket-bytes, and ahead where weights are gathered "
                  "during forwards{}\n\n",
                  view.objective == PlanObjective::memory ? "memory" : "time",
                  split_legend(view, outcomes), any_split ? "; *: layers rebalanced" : ""),
      static_cast<int>(width));
  for (std::size_t i = 0; i < top.size(); ++i) {
    std::string text;
    if (top[i].layout) {
      text = fmt::format("{} less with its layers split as {}",
                         format_time(top[i].even_ns - top[i].outcome.time_ns),
                         split_text(*top[i].layout));
    }
    if (const std::string variants = variants_text(view, top[i]); !variants.empty()) {
      text +=
          fmt::format("{}with other chunks, evenly split: {}", text.empty() ? "" : "; ", variants);
    }
    if (text.empty()) continue;
    any_remark = true;
    out += wrap(fmt::format("{}{} {}\n", top[i].layout ? "*" : "", i + 1, text),
                static_cast<int>(width));
  }
  return any_remark ? out + "\n" : out;
}

std::string why_lines(const PlanView& view, int width) {
  const std::vector<Finalist>& top = view.answer.top;
  std::string out;
  for (std::size_t i = 1; i < top.size(); ++i) {
    if (!top[i].candidate || !top.front().candidate) continue;
    const std::string why =
        why_not(*top[i].candidate, *top.front().candidate, view.memory_cap_bytes);
    constexpr int margin = 4;
    const std::string lines = wrap(why, width - margin);
    std::string number = std::to_string(i + 1);
    for (const std::string_view line : split(lines, '\n')) {
      out += fmt::format("{:>2}  {}\n", std::exchange(number, ""), line);
    }
  }
  return out;
}

// The front of time against memory.
std::string front(const PlanView& view, std::size_t width) {
  const std::vector<PlanOutcome>& all = view.answer.front;
  if (all.size() < 2) return {};
  const std::vector<std::string> labels(all.size() + 1);
  return "The fastest with less memory:\n\n" + layouts_table(view, all, labels, all.back(), width) +
         "\n";
}

std::string binding(const PlanView& view, int width) {
  if (view.answer.front.empty()) return {};
  std::string text;
  double said = 0;
  const auto cap = static_cast<double>(view.memory_cap_bytes);
  for (const PlanOutcome& one : view.answer.with_more) {
    const double more = static_cast<double>(one.memory_bytes) / cap - 1;
    if (more <= 0) continue;  // it may fit, and is named where it is faster
    const double gain = -loss_of(one, view.answer.front.back());
    constexpr double min_gain = 0.01;  // on what is said before
    if (gain < said + min_gain) continue;
    said = gain;
    const PlanPoint point = view.space.axes().at(one.index);
    text += fmt::format("With {:.0f} % more memory: {:.2f} % less time, using {}.\n", more * 100,
                        gain * 100, plan_layout_words(view.space, point));
  }
  if (text.empty() && view.answer.is_whole) {
    text = "No amount of memory would make it 1 % faster.\n";
  }
  if (text.empty()) return text;
  return wrap(text, width) + "\n";
}

std::string counts_table(const PlanView& view) {
  const PlanCounts& counts = view.answer.result.counts;
  std::string out = fmt::format("{} layouts, of which\n", format_count(view.space.axes().size()));
  const auto row = [&](std::int64_t count, std::string_view what) {
    if (count > 0) out += fmt::format("{:>14} {}\n", format_count(count), what);
  };
  row(counts.all_impossible(), "are impossible, by these rules:");
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    const std::int64_t count = counts.impossible[static_cast<std::size_t>(rule)];
    if (count == 0) continue;
    out += fmt::format("{:>18}   {}\n", format_count(count),
                       plan_rule_text(static_cast<PlanRule>(rule)));
  }
  row(counts.too_large, view.certain_bytes < view.memory_cap_bytes
                            ? fmt::format("are not sure to fit: they need more than {}",
                                          format_bytes(view.certain_bytes))
                            : "need too much memory, by a lower bound or exactly");
  row(counts.dominated, "are no faster than the best, or one like them");
  row(counts.evaluated, "fit, and were evaluated exactly");
  row(counts.not_reached, "were not examined within --budget");
  return out;
}

std::string measurement_words(const PlanView& view, const Finalist& best, const Finalist& rival,
                              double error) {
  const PlanPoint one = view.space.axes().at(best.outcome.index);
  const PlanPoint other = view.space.axes().at(rival.outcome.index);
  const auto both = [](int a, int b) {
    return a == b ? format_count(a) : fmt::format("{} and {}", format_count(a), format_count(b));
  };
  switch (cheapest_measurement(one, best, other, rival, error)) {
    case Measurement::none:
      return "They compute the same: their differences follow from their schedules, and no "
             "measurement is needed.";
    case Measurement::block: {
      const bool recompute_alike = one.recompute == other.recompute;
      const auto how = [&](const PlanPoint& point) {
        return fmt::format(
            "{} on {}{}", plural(point.micro_batch_size, "sequence"),
            plural(point.tensor_parallel, "device"),
            recompute_alike ? "" : ", recomputing " + recompute_name(point.recompute));
      };
      return fmt::format(
          "Cheapest way to tell them apart: a forward and a backward of one block, with "
          "{}, and with {}.",
          how(one), how(other));
    }
    case Measurement::replica:
      return fmt::format(
          "Cheapest way to tell them apart: an iteration of one replica of each, on {} "
          "devices.",
          both(one.tensor_parallel * one.context_parallel * one.stages,
               other.tensor_parallel * other.context_parallel * other.stages));
    case Measurement::iteration: break;
  }
  return fmt::format("Nothing smaller than an iteration of each, on all {}, tells them apart.",
                     plural(view.space.question().devices, "device"));
}

// What lies within the error of the best, of those that were evaluated.
std::string ties(const PlanView& view, int width) {
  const std::vector<Finalist>& top = view.answer.top;
  if (top.size() < 2) return {};
  const PlanOutcome& best = top.front().outcome;
  const PlanPoint point = view.space.axes().at(best.index);
  const auto band = error_band(model_of(view.space, point));
  if (!band) {
    return wrap(
        "The error of such predictions is not known: measure before you choose among "
        "these.\n",
        width);
  }
  const auto is_within = [&](const PlanOutcome& one) {
    return one.index != best.index && loss_of(one, best) <= band->fraction;
  };
  const auto within = std::ranges::count_if(view.answer.result.evaluated, is_within);
  std::string text = fmt::format("{} of those evaluated {} within the error of the best, {:.0f} %.",
                                 within == 0 ? "None" : format_count(within),
                                 within > 1 ? "lie" : "lies", band->fraction * 100);
  const auto rival = std::ranges::find_if(top, [&](const Finalist& one) {
    const PlanPoint other = view.space.axes().at(one.outcome.index);
    const bool is_other_split = static_cast<const PlanSplit&>(other) != point ||
                                other.stages != point.stages ||
                                other.micro_batch_size != point.micro_batch_size;
    return is_other_split && is_within(one.outcome);
  });
  if (rival != top.end()) {
    const PlanPoint other = view.space.axes().at(rival->outcome.index);
    text += fmt::format(" The nearest with another split loses {:.2f} %: {}. {}",
                        loss_of(rival->outcome, best) * 100, plan_layout_words(view.space, other),
                        top.front().candidate && rival->candidate
                            ? measurement_words(view, top.front(), *rival, band->fraction)
                            : "");
  }
  return wrap(text + "\n", width);
}

// Of each number of devices the best.
std::string devices_table(const PlanView& view, std::size_t width) {
  if (view.by_devices.size() < 2) return {};
  std::vector<Column> columns(5);
  const char* names[] = {"time", "device-hours", "MFU", "memory", "layout"};
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].name = names[c];
  std::vector<std::string> labels{"devices"};
  for (const PlanOfDevices& one : view.by_devices) {
    labels.push_back(format_count(one.devices));
    if (!one.best) {
      for (Column& column : columns) column.cells.emplace_back("-");
      columns.back().cells.back() = one.counts.not_reached > 0 ? "time ran out" : "nothing fits";
      continue;
    }
    const std::string cells[] = {
        format_time(one.best->time_ns),
        fmt::format("{:.2f}", static_cast<double>(one.best->time_ns) * 1e-9 * one.devices / 3600),
        fmt::format("{:.0f} %", one.mfu * 100), format_bytes(one.best->memory_bytes), one.layout};
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  std::vector<ColumnGroup> groups;
  for (Column& column : columns) groups.push_back({"", {std::move(column)}});
  return "The best for each number of devices:\n\n" + table(labels, groups, width) + "\n";
}

std::string_view splits_words(const PlanAxes& axes) {
  const auto any = [&](int PlanSplit::*degree) {
    return std::ranges::any_of(axes.splits, [&](const PlanSplit& one) { return one.*degree > 1; });
  };
  if (any(&PlanSplit::expert_parallel)) return "splits of layers, sequences and experts";
  return any(&PlanSplit::context_parallel) ? "splits of layers and sequences"
                                           : "tensor-parallel degrees";
}

std::string axes_words(const PlanAxes& axes) {
  const auto count = [](const auto& values, std::string_view what) {
    return fmt::format("{} {}", std::ssize(values), what);
  };
  return fmt::format("{} x {} x {} x {} x {} x {} x {}", count(axes.splits, splits_words(axes)),
                     count(axes.stages, "stage counts"),
                     count(axes.micro_batch_size, "micro-batch sizes"),
                     count(axes.sequence_parallel, "sequence-parallel settings"),
                     count(axes.recompute, "recompute settings"),
                     count(axes.schedules, "schedules"), count(axes.replicas, "replica settings"));
}

}  // namespace

std::string plan_layout_words(const PlanSpace& space, const PlanPoint& point) {
  const std::string_view schedule = point.schedule.family->name;
  std::string text = fmt::format("{}, {}", schedule, plural(point.stages, "stage"));
  if (point.stages == 1) {
    text = schedule == "1f1b" ? "no pipeline" : fmt::format("no pipeline, {}", schedule);
  }
  if (point.schedule.chunks > 1) text += fmt::format(" x {} chunks", point.schedule.chunks);
  text += ", " + plural(point.tensor_parallel, "tensor-parallel rank") + ", ";
  if (point.context_parallel > 1) {
    text += plural(point.context_parallel, "context-parallel rank") + ", ";
  }
  if (point.expert_parallel > 1) {
    text += fmt::format("experts over {}, ", plural(point.expert_parallel, "rank"));
  }
  text += plural(space.data_parallel(point), "replica");
  text += fmt::format(", micro-batch size {}", point.micro_batch_size);
  return text;
}

std::string plan_command(const std::vector<std::string>& flags, const PlanSpace& space,
                         const PlanPoint& point, const LayersOfStages& layers) {
  return fmt::format("{}", fmt::join(command_words(flags, space, point, layers), " "));
}

std::string plan_summary(const PlanView& view, const Terminal& terminal) {
  const Finalist& best = view.answer.top.front();
  const PlanPoint point = view.space.axes().at(best.outcome.index);
  return verdict(view, terminal) + "\n" +
         command_text(command_words(view.flags, view.space, point, best.layout), "  ",
                      terminal.width);
}

std::string plan_report(const PlanView& view, const Terminal& terminal) {
  const auto width = static_cast<std::size_t>(terminal.width);
  std::string out = plan_summary(view, terminal) + "\n";
  out += overlap_text(view, terminal.width);
  out += memory_doubt(view, terminal.width);
  out += nearby_batch_text(view, terminal.width);
  out += devices_table(view, width);
  out += top_table(view, width);
  if (view.objective != PlanObjective::memory) {
    out += why_lines(view, terminal.width) + "\n";
    out += ties(view, terminal.width) + "\n";
  }
  out += front(view, width);
  out += binding(view, terminal.width);
  out += counts_table(view);
  out += wrap("\nSearch space: " + axes_words(view.space.axes()) + ".\n", terminal.width);
  return out;
}

}  // namespace pipesim::cli
