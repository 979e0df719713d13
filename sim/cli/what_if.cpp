// `pipesim whatif TRACE... --scale ... --schedule ...`: predicts changes to a recorded run.
#include "sim/request/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/cli/commands.h"
#include "sim/cli/input_commands.h"
#include "sim/cli/outputs.h"
#include "sim/cost/layout.h"
#include "sim/flags/profile_flags.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/schedule/family.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

using Texts = std::vector<std::string>;

struct WhatIfFlags {
  Texts files;
  ProfileFlags profile{{}, {}, {}, "--order"};
  Texts scales, links, schedules, layouts, microbatches, storages, saves, input_pipelines;
  Flag virtual_stages;
  bool json = false;
};

struct WhatIfRow {
  std::string what;   // in words
  std::string flags;  // as given
  WhatIf question;
  RecordedBasis::Answer answer = {};
};

// "2B x 0.8": each B of stage 2
std::string words_of(const TimeChange& change) {
  std::string what = change.kind ? std::string(kind_name(*change.kind)) : "compute";
  if (change.stage && change.kind) {
    what = fmt::format("{}{}", *change.stage, what);
  } else if (change.stage) {
    what += fmt::format(" of stage {}", *change.stage);
  }
  if (change.rank) what += fmt::format(" of rank {}", *change.rank);
  return what + fmt::format(" x {:g}", change.factor);
}

std::string words_of(const LinkChange& change) {
  return fmt::format("link {}-{} {:g}x as fast", change.one, change.other, change.speed);
}

template <typename Changes>
std::string words_of(const Changes& changes) {
  std::string all;
  for (const auto& change : changes) all += (all.empty() ? "" : ", ") + words_of(change);
  return all;
}

// A row for each flag.
std::vector<WhatIfRow> rows_of(const WhatIfFlags& flags) {
  std::vector<WhatIfRow> rows;
  const auto add = [&](std::string what, std::string given, WhatIf question) {
    rows.push_back({std::move(what), std::move(given), std::move(question)});
  };
  for (const std::string& text : flags.scales) {
    WhatIf question;
    question.times = parse_time_changes(text);
    std::string what = words_of(question.times);
    add(std::move(what), "--scale " + text, std::move(question));
  }
  for (const std::string& text : flags.links) {
    WhatIf question;
    question.links = parse_link_changes(text);
    std::string what = words_of(question.links);
    add(std::move(what), "--link " + text, std::move(question));
  }
  std::optional<int> chunks;
  if (flags.virtual_stages) chunks = parse_count(*flags.virtual_stages, "--virtual-stages");
  for (const std::string& text : flags.schedules) {
    WhatIf question;
    question.schedule = text;
    question.chunks = chunks;
    std::string what = text;
    std::string given = "--schedule " + text;
    if (chunks) {
      what += fmt::format(", {} per rank", plural(*chunks, "chunk"));
      given += fmt::format(" --virtual-stages {}", *chunks);
    }
    add(std::move(what), std::move(given), std::move(question));
  }
  for (const std::string& text : flags.layouts) {
    WhatIf question;
    question.layout = parse_layout(text).layers;
    add("layout " + text, "--layout " + text, std::move(question));
  }
  for (const std::string& texts : flags.microbatches) {
    for (const std::string_view text : split(texts, ',')) {
      WhatIf question;
      question.microbatches = parse_count(text, "--microbatches");
      add(plural(*question.microbatches, "microbatch", "microbatches"),
          fmt::format("--microbatches {}", text), std::move(question));
    }
  }
  for (const std::string& text : flags.storages) {
    WhatIf question;
    question.storage_bytes_per_second = parse_bytes_per_second(text, "--storage");
    add("storage " + text, "--storage " + text, std::move(question));
  }
  for (const std::string& text : flags.saves) {
    WhatIf question;
    question.checkpoint_every = parse_count(text, "--checkpoint-every");
    add(fmt::format("a checkpoint every {}", plural(*question.checkpoint_every, "iteration")),
        "--checkpoint-every " + text, std::move(question));
  }
  return rows;
}

// All rows at once; nothing where one of them excludes another, or there is only one.
std::optional<WhatIfRow> together(const std::vector<WhatIfRow>& rows) {
  if (rows.size() < 2) return std::nullopt;
  WhatIfRow all{.what = "all of these", .flags = {}, .question = {}};
  const auto take = [](auto& to, const auto& from) {
    if (to && from) return false;
    if (from) to = from;
    return true;
  };
  WhatIf& question = all.question;
  for (const WhatIfRow& row : rows) {
    const WhatIf& own = row.question;
    question.times.insert(question.times.end(), own.times.begin(), own.times.end());
    question.links.insert(question.links.end(), own.links.begin(), own.links.end());
    if (!take(question.schedule, own.schedule) || !take(question.layout, own.layout) ||
        !take(question.microbatches, own.microbatches) ||
        !take(question.storage_bytes_per_second, own.storage_bytes_per_second) ||
        !take(question.checkpoint_every, own.checkpoint_every)) {
      return std::nullopt;
    }
    if (own.chunks) question.chunks = own.chunks;
    all.flags += (all.flags.empty() ? "" : " ") + row.flags;
  }
  return all;
}

double relative(double value, double to) { return to > 0 ? value / to - 1 : 0; }

// How much more work is done in the same time.
double speedup(const RecordedBasis::Answer& answer, const RecordedBasis::Answer& as_it_ran) {
  if (answer.iteration_ns <= 0 || as_it_ran.microbatches == 0) return 0;
  const double work = static_cast<double>(answer.microbatches) / as_it_ran.microbatches;
  return work * static_cast<double>(as_it_ran.iteration_ns) /
             static_cast<double>(answer.iteration_ns) -
         1;
}

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string table_of(const std::vector<WhatIfRow>& rows, const RecordedBasis& basis, int width) {
  const RecordedBasis::Answer& ran = basis.as_it_ran();
  const bool has_bytes = ran.peak_memory_bytes > 0;
  const std::size_t columns = has_bytes ? 54 : 43;
  std::size_t longest = std::string_view("as it ran").size();
  for (const WhatIfRow& row : rows) longest = std::max(longest, printable(row.what).size());
  const std::size_t most = std::max<std::size_t>(
      16, static_cast<std::size_t>(std::max(width, 0)) -
              std::min(static_cast<std::size_t>(std::max(width, 0)), columns));
  const std::size_t first = std::min(longest, most);
  const auto line = [&](const std::string& what, const RecordedBasis::Answer& answer, bool own) {
    std::string name = printable(what);
    std::string out;
    if (name.size() > first) {  // on a separate line, or several
      out = wrap(name, width) + "\n";
      name.clear();
    }
    const auto change =
        relative(static_cast<double>(answer.iteration_ns), static_cast<double>(ran.iteration_ns));
    out += fmt::format("{:<{}} {:>11} {:>10} {:>10} {:>8}", name, first,
                       format_time(answer.iteration_ns), own ? "" : signed_percent(change),
                       own ? "" : signed_percent(speedup(answer, ran)),
                       fmt::format("{:.0f} %", answer.bubble * 100));
    if (has_bytes) out += fmt::format(" {:>10}", format_bytes(answer.peak_memory_bytes));
    return out + "\n";
  };
  std::string out = fmt::format("{:<{}} {:>11} {:>10} {:>10} {:>8}", "what if", first, "iteration",
                                "change", "throughput", "bubble");
  out += has_bytes ? fmt::format(" {:>10}\n", "fullest") : "\n";
  out += line("as it ran", ran, true);
  for (const WhatIfRow& row : rows) out += line(row.what, row.answer, false);
  return out;
}

std::string json_of(const std::vector<WhatIfRow>& rows, const RecordedBasis& basis) {
  const auto put = [](const RecordedBasis::Answer& answer, Json& json) {
    json["makespan_ns"] = answer.iteration_ns;
    json["predicted_ns"] = answer.predicted_ns;
    json["microbatches"] = answer.microbatches;
    json["bubble_fraction"] = answer.bubble;
    json["peak_memory_bytes"] = answer.peak_memory_bytes;
  };
  const RecordedBasis::Answer& ran = basis.as_it_ran();
  Json json{{"format", "pipesim-whatif"}, {"version", 1}};
  Json& own = json["as_it_ran"];
  own = Json::object();
  put(ran, own);
  Json list = Json::array();
  for (const WhatIfRow& row : rows) {
    Json item{{"flags", row.flags}};
    put(row.answer, item);
    item["change"] = relative(static_cast<double>(row.answer.iteration_ns),
                              static_cast<double>(ran.iteration_ns));
    item["more_done"] = speedup(row.answer, ran);
    list.push_back(std::move(item));
  }
  json["rows"] = std::move(list);
  json["notes"] = basis.notes();
  return json.dump(2) + "\n";
}

void answer_what_if(const WhatIfFlags& flags, const CommandLine& command) {
  if (flags.files.empty()) throw input_error("whatif: give a trace, or one of each rank");
  if (const auto trace = one_input_run(flags.files, command,
                                       {"traces", "--scale", "--input-pipeline", "--json"})) {
    return answer_input_what_if(*trace, {flags.scales, flags.input_pipelines, flags.json});
  }
  if (!flags.input_pipelines.empty()) {
    throw input_error("--input-pipeline: the run has a schedule, not an input pipeline");
  }
  std::vector<WhatIfRow> rows = rows_of(flags);
  if (rows.empty()) {
    throw input_error(
        "whatif: name a change, such as --scale B@stage2=0.8 or --schedule zb-h1; `pipesim "
        "whatif --help` lists all");
  }
  if (flags.virtual_stages && flags.schedules.empty()) {
    throw input_error("--virtual-stages: belongs to --schedule; give one, too");
  }
  if (std::optional<WhatIfRow> all = together(rows)) rows.push_back(std::move(*all));
  std::optional<Progress> progress(std::in_place);
  progress->show("reading " + flags.files.front());
  ReadOptions options;
  options.layers = true;
  options.profile = profile_options(flags.profile);
  const RecordedRun run = read_run(flags.files, options);
  check_that_it_counts(options.profile, {&run});
  progress->show("calibrating");
  const RecordedBasis basis(run);
  for (WhatIfRow& row : rows) {
    progress->show("simulating: " + row.what);
    row.answer = basis.answer(row.question);
  }
  progress.reset();
  if (flags.json) {
    print(json_of(rows, basis));
    return;
  }
  const Terminal terminal = standard_output();
  const RecordedBasis::Answer& ran = basis.as_it_ran();
  std::string about =
      fmt::format("{}, {}, {}: {} per iteration",
                  printable(run.about.schedule.empty() ? run.name : run.about.schedule),
                  plural(run.ranks, "rank"), plural(run.microbatches, "microbatch", "microbatches"),
                  format_time(ran.iteration_ns));
  if (run.iterations.size() > 1) {
    about += fmt::format(", the median of {}", plural(std::ssize(run.iterations), "iteration"));
  }
  if (basis.saves().any()) {
    about += fmt::format(", with its part of a checkpoint every {}",
                         plural(basis.saves().every, "iteration"));
  }
  print(bold(wrap(about + ".", terminal.width), terminal.colour) + "\n");
  const double off =
      relative(static_cast<double>(ran.predicted_ns), static_cast<double>(ran.iteration_ns));
  print(wrap(fmt::format("Costs calibrated from it predict {}, {}; rows are corrected by as much.",
                         format_time(ran.predicted_ns), signed_percent(off)),
             terminal.width) +
        "\n\n");
  print(table_of(rows, basis, terminal.width));
  const std::string warnings = run.warnings.text();
  if (!warnings.empty()) print("\n" + warnings);
}

}  // namespace

void set_up_what_if(CommandLine& command) {
  auto flags = std::make_shared<WhatIfFlags>();
  command.add_flags(
      "", {{"traces", &flags->files, "TRACE", "traces of one run: one file, or one per rank"}});
  command.add_flags("Input", profile_flag_help(flags->profile));
  command.add_flags(
      "Changes; each may be given several times and makes a row",
      {{"--scale", &flags->scales, "B@stage2=0.8", "scales compute times; see below"},
       {"--link", &flags->links, "0-1=2x", "speeds up messages between two ranks"},
       {"--schedule", &flags->schedules, "NAME|FILE", "another schedule, by name or from a file",
        schedule_names},
       {"--virtual-stages", &flags->virtual_stages, "V", "chunks per rank of such a schedule"},
       {"--layout", &flags->layouts, "3,2,2,2",
        "layers per virtual stage; needs a run with layers"},
       {"--microbatches", &flags->microbatches, "16,32",
        "microbatches per iteration; one row each"},
       {"--storage", &flags->storages, "RATE", "total rate at which ranks write checkpoints"},
       {"--checkpoint-every", &flags->saves, "N", "save interval, for a run that saved"},
       {"--input-pipeline", &flags->input_pipelines, "NAME|FILE",
        "another pipeline, for a run of an input pipeline", input_family_names}});
  command.add_flags("Output", {{"--json", &flags->json, "prints the result as one JSON object"}});
  command.set_work([flags, &command] { answer_what_if(*flags, command); });
  command.set_footer(
      "--scale takes a kind (F, I, W, B), a stage or a rank: B@stage2=0.8, F@rank1=1.5,\n"
      "stage2=0.8, rank1=1.5, B=0.9; a comma combines several. The last row applies\n"
      "all changes, where they can be combined. For an input pipeline it takes a\n"
      "kind or a rank: IDS=0.5, LOOKUP@rank1=2.\n"
      "\n"
      "Costs are calibrated from the run, changed and simulated. Their error on the\n"
      "run itself corrects all rows.\n"
      "\n"
      "Examples:\n"
      "  pipesim whatif run.json.gz --scale B@stage2=0.8 --link 0-1=2x\n"
      "  pipesim whatif run.json.gz --schedule zb-h1 --schedule interleaved\n"
      "      --microbatches 16,32");
}

}  // namespace pipesim::cli
