// `pipesim predict`: predicts an iteration, or several that follow each other.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/cli/commands.h"
#include "sim/cli/explanation_report.h"
#include "sim/cli/notes_report.h"
#include "sim/cli/outputs.h"
#include "sim/cli/plan.h"
#include "sim/cli/prediction.h"
#include "sim/cli/rank_list.h"
#include "sim/cli/report.h"
#include "sim/cli/setup.h"
#include "sim/cli/spread_flags.h"
#include "sim/schedule/csv.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/chrome_writer.h"
#include "traces/print/layout_picture.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

// The flags of predict, and where its outputs go.
struct Flags : PredictFlags {
  Flag trace, export_file, figure, layout_picture;
  bool json = false;
  bool quiet = false;
  bool list_ranks = false;
};

// The iteration that is predicted with other flags of the model, or other numbers of the schedule.
FlagsOutcome outcome_with(PredictFlags flags, const FlagValues& changed) {
  ModelFlags& model = flags.costs.model;
  model.is_row = true;
  set_flags(all_model_flags(model), changed);
  set_flags(schedule_flags_but_name(flags.schedule), changed);
  CostRequest costs = cost_request(flags.costs);
  add_slow_ranks(flags.spread, costs);
  return outcome_of(std::move(costs), model.global_batch, flags.schedule);
}

void list_ranks(const Flags& flags) {
  for (const auto& [output, is_given] : {std::pair("--trace", flags.trace.has_value()),
                                         {"--export", flags.export_file.has_value()},
                                         {"--figure", flags.figure.has_value()},
                                         {"--layout-picture", flags.layout_picture.has_value()},
                                         {"--explain", flags.explain},
                                         {"--quiet", flags.quiet}}) {
    if (!is_given) continue;
    throw input_error(
        fmt::format("{}: with --list-ranks nothing is predicted; omit one of them", output));
  }
  print(rank_list(flags, flags.json, standard_output().width));
}

void check_files(const Flags& flags) {
  if (flags.export_file && flags.export_file->ends_with(".gz")) {
    throw input_error("--export: a schedule is written as plain CSV; omit .gz");
  }
  const Flag& schedule = flags.schedule.schedule;
  check_outputs({{"--schedule", schedule && names_a_file(*schedule) ? schedule : Flag()},
                 {"--costs", flags.costs.costs},
                 {"--model", file_of(flags.costs.model.model)},
                 {"--cluster", file_of(flags.costs.model.cluster)},
                 {"--trace", flags.trace, true},
                 {"--export", flags.export_file, true},
                 {"--figure", flags.figure, true},
                 {"--layout-picture", flags.layout_picture, true}});
}

void run(const Flags& flags, const CommandLine& program) {
  check_files(flags);
  if (flags.list_ranks) return list_ranks(flags);
  const ModelFlags& model_flags = flags.costs.model;
  if (!flags.schedule.schedule && model_flags.model && model_flags.cluster) {
    return plan_in_short(model_flags, flags.schedule, flags.memory_cap);
  }
  const AskedPrediction asked = prepare(flags, {flags.trace.has_value(), flags.json});
  const PreparedPrediction& prepared = asked.prepared;
  const auto& [source, choice, model, cap, costs, options] = prepared;
  // Opened first: an output that can't be written fails before the work.
  std::optional<OutputFile> trace;
  std::optional<OutputFile> exported;
  FigureFile figure(flags.figure);
  LayoutOutput layout(flags.layout_picture, flags.json);
  if (flags.trace) trace.emplace(*flags.trace, flags.trace->ends_with(".gz"));
  if (flags.export_file) {
    check_fits_csv(choice.schedule);
    exported.emplace(*flags.export_file);
  }
  if (layout.is_wanted()) layout.show(layout_of(prepared), standard_output(), !flags.quiet);

  std::optional<Progress> progress(std::in_place);
  progress->show(fmt::format("simulating {} actions",
                             format_count(choice.schedule.actions.size() * options.iterations)));
  const Prediction prediction = prepared.predict();
  std::optional<PredictionDetails> details;
  if (flags.json || !flags.quiet) {
    if (asked.spread)
      progress->show(fmt::format("simulating {}", plural(asked.spread->seeds, "draw")));
    details = find_details(asked, prediction);
  }
  if (trace) {
    progress->show("writing the trace");
    write_trace(prepared, *trace);
  }
  for (int rank = 0; exported && rank < choice.schedule.ranks(); ++rank) {
    exported->write(csv_row(choice.schedule.actions[rank]) + csv_line_end);
  }
  if (trace) trace->commit();
  if (exported) exported->commit();

  if (figure.is_wanted()) {
    progress->show("drawing");
    figure.write({{"", {timeline_of(prepared, prediction)}, ""}});
  }

  progress.reset();
  if (!details) return;
  if (flags.json) return print(json_of(asked, prediction, *details));
  const Terminal terminal = standard_output();
  const OtherFlags other{[&](const FlagValues& changed) { return outcome_with(flags, changed); },
                         model_flags.global_batch.has_value(), model_flags.devices.has_value()};
  print(report(prepared, prediction, details->saves, asked.schedule, program.arguments(), other,
               terminal));
  print(notes_report(details->notes, terminal.width));
  if (details->spread) {
    print("\n" + spread_report(*details->spread, *asked.spread, prediction.metrics.makespan_ns,
                               terminal.width));
  }
  if (details->explanation) {
    const Throughput reached =
        throughput(*model, choice.schedule.microbatches, prediction.iteration_ns(),
                   details->explanation->recomputed_flops);
    print("\n" + explanation_report(*model, *details->explanation, reached, *cap, terminal.width));
  }
  if (trace)
    print(fmt::format("Trace: {} (open it in ui.perfetto.dev)\n", printable(trace->path())));
  print(figure.told() + layout.told());
  if (exported) print(fmt::format("Schedule: {}\n", printable(exported->path())));
}

}  // namespace

void set_up_predict(CommandLine& command) {
  auto flags = std::make_shared<Flags>();
  add_schedule_flags(command, flags->schedule, true);
  add_cost_flags(command, flags->costs);
  command.add_flags("Checkpoints", all_save_flags(flags->save));
  add_spread_flags(command, flags->spread);
  command.add_flags("Output", extent_flags(*flags));
  command.add_flags(
      "Output",
      {{"--trace", &flags->trace, "FILE.json[.gz]", "writes the timeline as a Chrome trace"},
       {"--export", &flags->export_file, "FILE.csv", "writes the schedule as PyTorch's CSV"},
       {"--figure", &flags->figure, "FILE.svg|FILE.png", "draws the timeline as a figure"},
       FlagHelp("--layout-picture", &flags->layout_picture, "[FILE.svg]",
                "draws layers, ranks, messages as text or SVG")
           .or_alone(LayoutOutput::printed),
       {"--explain", &flags->explain, "breaks down a model's time and memory"},
       {"--list-ranks", &flags->list_ranks, "lists ranks, devices and groups; predicts nothing"},
       {"--json", &flags->json, "prints the result as one JSON object"},
       {"--quiet", &flags->quiet, "prints no report"}});
  command.show_first({"--schedule", "--stages", "--microbatches", "--model", "--cluster",
                      "--memory-cap", "--trace", "--json"});
  command.set_footer(
      "How results travel, --p2p:\n"
      "  async      as soon as they exist, without occupying a device\n"
      "  blocking   SEND and RECV rendezvous and occupy both devices\n"
      "  fifo       the same on one in-order communication stream per rank, as with one\n"
      "             NCCL communicator\n"
      "  edge-fifo  the same on one stream per directed pair of ranks\n"
      "\n"
      "An action is written as its stage, kind and microbatch: 4B0 is the backward of\n"
      "virtual stage 4 for microbatch 0, and 4B that for every microbatch. Kinds are F,\n"
      "B, or I and W for the gradients of inputs and weights. With --virtual-stages V\n"
      "rank r of P holds virtual stages r, r + P, and so on: its chunks.\n"
      "\n"
      "What backwards recompute instead of keeping, --recompute: none,\n"
      "full (each block's forward), full:4 (of each stage's first four blocks), or\n"
      "some of these, separated by commas:\n"
      "  attention  scores, softmax and their product with the values; alone, also\n"
      "             called selective\n"
      "  norms      outputs of norms\n"
      "  activation output of the MLP's activation\n"
      "  products   every second product with weights, as torchtitan does\n"
      "  latent     latent attention's queries, keys and values\n"
      "  mlp        the MLP of blocks without experts\n"
      "  shared     experts that every token goes through\n"
      "  experts    those and routed ones, with the router and both exchanges\n"
      "\n"
      "How tokens reach experts on other ranks, --expert-dispatch:\n"
      "  alltoall   each copy travels; default\n"
      "  allgather  every rank gets all tokens\n"
      "  deduplicated  a token goes once to a node, and there once to a rank, as with\n"
      "             DeepEP and HybridEP\n"
      "How many of them the fullest rank gets, --expert-load: a factor on the mean such\n"
      "as 1.3; zipf:0.5, where the i-th most popular expert gets 1/i^0.5; or a file of\n"
      "token counts by expert, a line for each layer. Default: the mean.\n"
      "\n"
      "How long --zero 3 keeps a stage's weights gathered, --gather:\n"
      "  window     while among the next three stages that its rank needs; default\n"
      "  pass       for each forward and backward, two layers at a time; default for a\n"
      "             lone stage\n"
      "  once       from its first action to its last\n"
      "\n"
      "Examples:\n"
      "  pipesim predict --schedule 1f1b --stages 4 --microbatches 8\n"
      "  pipesim predict --schedule interleaved --stages 8 --microbatches 32\n"
      "      --forward 12ms --backward 24ms --p2p-latency 300us --trace timeline.json\n"
      "  pipesim predict --schedule my_order.csv --costs costs.json --memory-cap 80GiB\n"
      "      --json\n"
      "  pipesim predict --model gpt2-small --cluster dgx-a100 --schedule 1f1b\n"
      "      --stages 4 --microbatches 32 --micro-batch-size 8 --explain");
  command.set_work([flags, &command] { run(*flags, command); });
}

}  // namespace pipesim::cli
