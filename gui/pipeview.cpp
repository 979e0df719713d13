// pipeview: shows a predicted and a measured pipeline timeline side by side.
#include <fmt/format.h>
#include <malloc.h>

#include <QApplication>
#include <QStandardPaths>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gui/playground/playground.h"
#include "gui/tables/report.h"
#include "gui/window/main_window.h"
#include "gui/window/screenshot.h"
#include "sim/flags/profile_flags.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/command/command_line.h"
#include "traces/print/terminal.h"

namespace pipesim::gui {
namespace {

struct Flags {
  std::vector<std::string> traces;
  ProfileFlags profile;
  Flag screenshot, size, theme, align, show, colour, select, range, scale, memory_cap;
  Flag stages, microbatches, virtual_stages, forward, backward, p2p_latency;  // of the playground
  bool report = false, transfers = false, critical = false, playground = false;
};

// The value that a flag names; `names` in the order of the enumeration.
template <typename Value>
Value named(const Flag& flag, const char* where, const std::vector<std::string>& names,
            Value otherwise) {
  if (!flag) return otherwise;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == *flag) return static_cast<Value>(i);
  }
  throw input_error(std::string(where) + ": " + unknown_name("value", *flag, names));
}

TimeRange parse_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    throw input_error("--range: " + quote(text) + " is not a range; give one such as 1ms..5ms");
  }
  const TimeRange range{parse_time_ns(text.substr(0, dots), "--range"),
                        parse_time_ns(text.substr(dots + 2), "--range")};
  if (range.length_ns() < min_range_ns) {
    throw input_error(fmt::format("--range: {} is shorter than {}; its end must be later",
                                  quote(text), format_time(min_range_ns)));
  }
  return range;
}

// The initial settings of the playground; a schedule must be one of its names then.
Settings settings_of(const Flags& flags) {
  Settings settings;
  if (flags.profile.schedule) settings.schedule = *flags.profile.schedule;
  if (settings.schedule.find_first_of("./") != std::string::npos) {
    throw input_error(
        "--schedule: the playground plays schedules by name; for a file, write a trace with "
        "`pipesim --schedule FILE --trace run.json` and open that");
  }
  std::vector<std::string> names;
  for (const Offer& offer : offers()) {
    names.push_back(offer.name);
    if (offer.name == settings.schedule) settings.virtual_stages = offer.default_chunks;
  }
  if (std::ranges::find(names, settings.schedule) == names.end()) {
    throw input_error("--schedule: " + unknown_name("schedule", settings.schedule, names));
  }
  const auto count = [](const Flag& flag, const char* where, int most, int& value) {
    if (!flag) return;
    value = parse_count(*flag, where);
    if (value <= most) return;
    throw input_error(
        fmt::format("{} {}: the playground has at most {}; `pipesim --trace FILE` takes more",
                    where, *flag, most));
  };
  count(flags.stages, "--stages", largest_stages, settings.stages);
  count(flags.microbatches, "--microbatches", largest_microbatches, settings.microbatches);
  count(flags.virtual_stages, "--virtual-stages", largest_chunks, settings.virtual_stages);
  if (flags.forward) settings.forward_ns = parse_time_ns(*flags.forward, "--forward");
  if (flags.backward) {
    const std::int64_t whole = parse_time_ns(*flags.backward, "--backward");
    settings.input_ns = whole - whole / 2;
    settings.weight_ns = whole / 2;
  }
  if (flags.p2p_latency) {
    settings.latency_ns = parse_time_ns(*flags.p2p_latency, "--p2p-latency");
  }
  if (flags.memory_cap) settings.memory_cap_bytes = parse_bytes(*flags.memory_cap, "--memory-cap");
  if (const Outcome outcome = play(settings); !outcome.objection.empty()) {
    throw input_error("--playground: " + outcome.objection);
  }
  return settings;
}

WindowOptions options_of(const Flags& flags) {
  WindowOptions options;
  if (flags.theme) {
    options.theme = named(flags.theme, "--theme", {"light", "dark"}, Theme::light);
  }
  SceneOptions& scene = options.scene;
  scene.alignment =
      named(flags.align, "--align", {"absolute", "iteration", "slot"}, scene.alignment);
  scene.show = named(flags.show, "--show", {"stacked", "overlay", "difference"}, scene.show);
  scene.colouring =
      named(flags.colour, "--colour", {"kind", "microbatch", "error"}, scene.colouring);
  options.colouring_chosen = flags.colour.has_value();
  scene.transfers = flags.transfers;
  scene.critical = flags.critical;
  options.playground = flags.traces.empty();
  if (options.playground) {
    options.played = settings_of(flags);
  } else {
    options.profile = profile_options(flags.profile);
  }
  if (flags.select) options.select = *flags.select;
  if (flags.range) options.range = parse_range(*flags.range);
  if (flags.memory_cap) options.capacity_bytes = parse_bytes(*flags.memory_cap, "--memory-cap");
  return options;
}

// Qt ends the program if it can't reach a screen; its other messages are for developers.
void say_why_it_ends(QtMsgType type, const QMessageLogContext& /*where*/, const QString& /*text*/) {
  if (type != QtFatalMsg) return;
  std::fputs(
      "pipeview: no window can be opened on the screen that DISPLAY or QT_QPA_PLATFORM names; "
      "--screenshot FILE.png writes a picture, --report prints\n",
      stderr);
  std::_Exit(2);
}

// Qt reads these when the application is constructed.
void prepare_screen(const Flags& flags, QSize size) {
  const auto unset = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0';
  };
  if (unset("QT_LOGGING_RULES")) qInstallMessageHandler(say_why_it_ends);
  if (unset("QT_QPA_PLATFORM")) {
    if (flags.screenshot) {
      qputenv("QT_QPA_PLATFORM", "offscreen");  // the same picture on every screen
    } else if (unset("DISPLAY") && unset("WAYLAND_DISPLAY")) {
      throw input_error(
          "there is no display to open a window on; --screenshot FILE.png writes a picture, "
          "--report prints");
    }
  }
  if (flags.scale) {
    const int scale = parse_count(*flags.scale, "--scale");
    if (scale > 4) throw input_error("--scale: use 1 to 4 device pixels per pixel");
    check_pixels(size, scale);
    qputenv("QT_SCALE_FACTOR", QByteArray::number(scale));
    qputenv("QT_FONT_DPI", "96");
  }
}

// Refuses flags that would be ignored.
void check_together(const CommandLine& program, const Flags& flags) {
  const std::string other =
      program.first_given({"--report", "traces", "--schedule", "--ranks", "--replica"});
  if (flags.report && !other.empty()) {
    throw input_error(other + " has no effect with --report, which prints; omit it");
  }
  if (flags.playground && !flags.traces.empty()) {
    throw input_error("--playground makes its own timeline; omit the traces");
  }
  for (const auto& [flag, name] : {std::pair(&flags.stages, "--stages"),
                                   {&flags.microbatches, "--microbatches"},
                                   {&flags.virtual_stages, "--virtual-stages"},
                                   {&flags.forward, "--forward"},
                                   {&flags.backward, "--backward"},
                                   {&flags.p2p_latency, "--p2p-latency"}}) {
    if (*flag && (flags.report || !flags.traces.empty())) {
      throw input_error(std::string(name) +
                        " is for the playground, which is shown without traces; omit it");
    }
  }
  for (const auto& [flag, name] : {std::pair(&flags.select, "--select"),
                                   {&flags.range, "--range"},
                                   {&flags.profile.ranks, "--ranks"},
                                   {&flags.profile.replica, "--replica"}}) {
    if (*flag && flags.traces.empty()) {
      throw input_error(std::string(name) + " needs a trace; give one");
    }
  }
}

void run(const CommandLine& program, const Flags& flags, int argc, char** argv) {
  check_together(program, flags);
  if (flags.report) {
    if (flags.traces.empty()) throw input_error("--report: give a trace, or two to compare");
    // As `pipesim` does: one of several replicas.
    const Document document = open_traces(flags.traces, {}, profile_options(flags.profile), 1);
    print(report_of(document, standard_output()));
    return;
  }
  WindowOptions options = options_of(flags);
  const QSize size = parse_size(flags.size.value_or("1600x900"), "--size");
  if (flags.screenshot) check_screenshot_name(*flags.screenshot);
  prepare_screen(flags, size);
  QStringList traces;
  for (const std::string& path : flags.traces) traces += QString::fromStdString(path);
  QApplication application(argc, argv);
  QApplication::setApplicationName("pipeview");
  if (flags.screenshot) {
    take_screenshot(options, traces, size, *flags.screenshot);
    return;
  }
  options.settings_file =
      (QStandardPaths::writableLocation(QStandardPaths::AppConfigLocation) + "/pipeview.ini")
          .toStdString();
  MainWindow window(options);
  if (flags.size) window.resize(size);
  window.show();
  window.open(traces, options.profile);
  QApplication::exec();
}

}  // namespace
}  // namespace pipesim::gui

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Temporary memory of opening large traces is returned to the system at once.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
  pipesim::CommandLine program(
      "pipeview",
      "pipeview shows a predicted and a measured pipeline timeline side by side:\n"
      "where they differ, and why. Without traces it opens a pipeline to play with.",
      PIPESIM_VERSION);
  pipesim::gui::Flags flags;
  program.add_flags(
      "", {{"traces", &flags.traces, "FILE", "traces or folders to open; a prediction first"}});
  program.add_flags("Input", pipesim::profile_flag_help(flags.profile));
  program.add_flags(
      "Without a screen",
      {{"--screenshot", &flags.screenshot, "FILE.png", "writes a picture of the window"},
       {"--size", &flags.size, "WxH", "of the window (1600x900)"},
       {"--scale", &flags.scale, "N", "device pixels per pixel (1)"},
       {"--report", &flags.report, "prints the report of `pipesim compare`"}});
  program.add_flags(
      "What is shown",
      {{"--theme", &flags.theme, "light|dark", "colours (the desktop's)"},
       {"--align", &flags.align, "absolute|iteration|slot", "the time axis (iteration)"},
       {"--show", &flags.show, "stacked|overlay|difference", "both timelines (stacked)"},
       {"--colour", &flags.colour, "kind|microbatch|error", "what colours mean (kind)"},
       {"--select", &flags.select, "2B3", "selects an action, as the search does"},
       {"--range", &flags.range, "1ms..5ms", "the visible part of the axis"},
       {"--memory-cap", &flags.memory_cap, "16GiB", "per rank; a line on memory curves"},
       {"--transfers", &flags.transfers, "sends and receives on separate rows"},
       {"--critical", &flags.critical, "the critical path"},
       {"--playground", &flags.playground, "opens the playground, as without traces"}});
  program.add_flags(
      "Playground, which takes --schedule NAME and --memory-cap, too",
      {{"--stages", &flags.stages, "P", "pipeline ranks (4)"},
       {"--microbatches", &flags.microbatches, "M", "microbatches per iteration (8)"},
       {"--virtual-stages", &flags.virtual_stages, "V", "chunks per rank (the schedule's)"},
       {"--forward", &flags.forward, "T", "per chunk and microbatch (1ms)"},
       {"--backward", &flags.backward, "T", "the same, halved into I and W (2ms)"},
       {"--p2p-latency", &flags.p2p_latency, "T", "of a message between ranks (0)"}});
  program.set_footer(
      "Traces from pipesim, pipeexec or PyTorch's profiler, or any Chrome trace.\n"
      "\n"
      "Examples:\n"
      "  pipeview predicted.json measured.json\n"
      "  pipeview predicted.json measured.json --screenshot both.png --size 1600x900\n"
      "  pipeview predicted.json measured.json --report\n"
      "  pipeview --schedule interleaved --stages 4 --microbatches 8 --virtual-stages 2");
  program.set_work([&] { pipesim::gui::run(program, flags, argc, argv); });
  return program.run(argc, argv);
}
