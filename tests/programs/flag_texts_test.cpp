// Whatever text a flag or an argument is given, a program ends by itself, soon, in bounded memory,
// with exit status 0, 1 or 2, and says why in a sentence. Flags are those that --help lists, so
// that a new one is tried as soon as it is there; a new command needs a line below.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/help.h"
#include "tests/thorough.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::CommandHelp;
using testing::HelpFlag;
using testing::Outcome;
using Words = std::vector<std::string>;

// What is typed behind a command without flags of its own interest: it goes well, and gets far
// enough for other flags to count. IN is the folder of inputs, BIN that of programs.
const std::map<std::string, Words>& lines_of_commands() {
  static const std::string shape = " --stages 2 --microbatches 4";
  static const std::string by_model = " --model gpt2-small --cluster dgx-a100";
  static const std::string train = "--schedule 1f1b" + shape + " --iterations 1 --warmup 0";
  static const std::string saves = " --mtbf 10h --restart 60s --trials 10";
  static const std::map<std::string, Words> all{
      {"pipesim", {"--schedule 1f1b" + shape}},
      {"pipesim predict",
       {"--schedule 1f1b" + shape,
        "--schedule 1f1b" + shape + by_model + " --tensor-parallel 2 --data-parallel 2 --zero 3",
        "--schedule 1f1b" + shape + " --costs IN/costs.json"}},
      {"pipesim feed",
       {"--input-pipeline base --model dlrm-mini --cluster dgx-a100 --ranks 2 --batches 2"}},
      {"pipesim schedules",
       {"--compare" + shape, "--compare" + shape + by_model, "--compare IN/program.csv"}},
      {"pipesim schedule print", {"1f1b" + shape}},
      {"pipesim schedule check", {"1f1b" + shape}},
      {"pipesim schedule lower", {"1f1b" + shape}},
      {"pipesim schedule convert", {"1f1b" + shape, "IN/program.csv"}},
      {"pipesim schedule streams", {"1f1b" + shape}},
      {"pipesim schedule receives", {"1f1b" + shape, "1f1b" + shape + by_model}},
      {"pipesim compare", {"IN/predicted.json IN/measured.json"}},
      {"pipesim report", {"IN/measured.json", "IN/input_run.json"}},
      {"pipesim calibrate", {"IN/measured.json -o out.json"}},
      {"pipeexec device", {"--small --most-spread 1000000 -o out.json"}},
      {"pipesim fit", {"IN/runs.csv --cluster dgx-a100"}},
      {"pipesim whatif", {"IN/measured.json --scale B=0.9"}},
      {"pipesim partition",
       {"--schedule 1f1b" + shape + by_model,
        "--schedule 1f1b" + shape + " --costs IN/layers.json"}},
      {"pipesim plan", {"--devices 4 --global-batch 8" + by_model}},
      {"pipesim import", {"IN/megatron.sh"}},
      {"pipesim goodput",
       {"--save-time 10s --iteration-time 1s" + saves,
        "--schedule 1f1b --storage 2GB/s" + shape + by_model + saves}},
      {"pipesim models", {""}},
      {"pipesim clusters", {""}},
      {"pipesim software", {""}},
      {"pipesim devices", {""}},
      {"pipeexec",
       {train + " --device emulated", train + " --model IN/mlp.json",
        train + " --model IN/mlp.json --checkpoint saved --checkpoint-every 1",
        "--input-pipeline base --ranks 1 --batches 2 --batch-size 4"}},
      {"pipeexec supervise",
       {"-- BIN/pipeexec " + train + " --model IN/mlp.json --checkpoint saved"}},
      {"pipeexec checkpoint show", {"IN/saved"}},
      {"pipeexec checkpoint verify", {"IN/saved"}},
      {"pipeexec checkpoint export", {"IN/saved out.safetensors"}},
      {"pipeexec checkpoint import",
       {"IN/weights.safetensors --model IN/gpt.json --checkpoint new"}},
      {"pipeview",
       {"IN/predicted.json IN/measured.json --report",
        "IN/predicted.json IN/measured.json --screenshot out.png --size 500x500",
        "--playground --screenshot out.png --size 500x500"}}};
  return all;
}

// The first one is tried with every flag.
Words absurd_texts() {
  std::string bytes(255, '\0');
  std::iota(bytes.begin(), bytes.end(), '\1');
  const std::size_t many = 100'000;
  return {"",
          " ",
          "-",
          "--",
          "-1",
          "0",
          "-0",
          "1.5",
          "0x10",
          "nan",
          "inf",
          "1e999",
          "1e18",
          "2147483648",
          "4294967297",
          "9223372036854775807",
          "9223372036854775808",
          "-9223372036854775808",
          "99999999999999999999",
          "1ns",
          "0s",
          "9999999999s",
          "1e18s",
          "9e18B",
          "0B",
          "1B/s",
          "0B/s",
          "0%",
          "1:2",
          "2:1e9",
          "0-0",
          "0-1=1e300x",
          "B=1e-300",
          "B@stage99=1",
          "1x1",
          "0ms..0ms",
          ",,,",
          "1,",
          "none,none",
          "=",
          "a=b",
          "v",
          "auto",
          "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80",
          "%s%n",
          "{}",
          "\\",
          "\"",
          "'",
          "$(x)",
          "\n",
          "a\nb",
          bytes,
          std::string(many, 'x'),
          std::string(many, '9'),
          std::string(many, ','),
          "/",
          ".",
          "../",
          "a/b/c",
          "/dev/null",
          "/dev/full",
          "/proc/self/mem",
          "/proc/self/environ",
          "IN",
          "IN/secret",
          "IN/closed",
          "IN/predicted.json",
          "IN/costs.json",
          "IN/program.csv",
          "IN/runs.csv",
          "IN/megatron.sh",
          "IN/mlp.json"};
}

// Refers to what outlives it: there are many, of long texts.
struct Trial {
  const CommandHelp* command = nullptr;
  std::string_view line;
  const HelpFlag* flag = nullptr;  // absent: the line alone
  int argument = -1;               // its place, if it is one
  std::string_view text;

  std::string shown() const {
    return fmt::format("{} {} | {} '{}'", fmt::join(command->words, " "), line, flag->names.back(),
                       text.substr(0, 40));
  }
};

// Programs and inputs that everyone may read, in a folder of their own.
class FlagTexts : public ::testing::Test {
 protected:
  FlagTexts() {
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::create_directories(folder_ / "in");
    ::chmod(folder_.path().c_str(), 0755);
    for (const std::string& path : programs()) {
      std::filesystem::copy_file(path, program(std::filesystem::path(path).filename()));
    }
    const auto take = [&](const std::string& name, const std::string& from) {
      write_file(in(name), read_file(testing::source_file(from)));
    };
    take("program.csv", "examples/two_chunks_v.csv");
    take("costs.json", "tests/fuzz/seeds/costs/stages.json");
    take("layers.json", "tests/fuzz/seeds/costs/layers.json");
    take("megatron.sh", "examples/import/megatron_gpt3.sh");
    take("mlp.json", "tests/fuzz/seeds/model/mlp.json");
    take("gpt.json", "tests/fuzz/seeds/model/gpt.json");
    write_file(in("runs.csv"),
               "model,stages,tensor_parallel,global_batch,seconds\n"
               "gpt2-small,1,1,4,0.5\ngpt2-small,2,1,4,0.4\ngpt2-small,2,2,4,0.3\n");
    write_file(in("secret"), "");
    std::filesystem::create_directory(in("closed"));
    for (const char* name : {"secret", "closed"}) ::chmod(in(name).c_str(), 0);
    const std::string shape = "--schedule 1f1b --stages 2 --microbatches 4 --quiet ";
    call("pipesim", shape + "--trace IN/predicted.json");
    call("pipeexec", shape + "--device emulated --iterations 1 --trace IN/measured.json");
    call("pipeexec",
         "--input-pipeline base --ranks 1 --batches 2 --batch-size 4 --quiet "
         "--trace IN/input_run.json");
    call("pipeexec", shape +
                         "--model IN/gpt.json --iterations 1 --warmup 0 --checkpoint IN/saved "
                         "--sequence-length 4");
    call("pipeexec", "checkpoint export IN/saved IN/weights.safetensors");
  }

  static Words programs() {
#ifdef PIPEVIEW_COMMAND
    return {PIPESIM_COMMAND, PIPEEXEC_COMMAND, PIPEVIEW_COMMAND};
#else
    return {PIPESIM_COMMAND, PIPEEXEC_COMMAND};
#endif
  }
  std::string in(const std::string& name) const { return folder_ / ("in/" + name); }
  std::string program(const std::string& name) const { return folder_ / ("bin/" + name); }

  std::string placed(const std::string& word) const {
    if (word == "IN") return folder_ / "in";
    if (word.starts_with("IN/")) return in(word.substr(3));
    if (word.starts_with("BIN/")) return program(word.substr(4));
    return word;
  }

  void call(const std::string& name, const std::string& line) const {
    Words argv{program(name)};
    for (const std::string& word : testing::words(line)) argv.push_back(placed(word));
    const Outcome outcome = testing::run_command(argv);
    ASSERT_EQ(outcome.status, 0) << name << " " << line << "\n" << outcome.err;
  }

  // In a folder of its own, as someone who owns nothing, and with limits.
  Outcome run(const Words& command) const {
    const testing::TemporaryFolder scratch(testing::memory_folder());
    const std::string inner = scratch / "a/b";
    std::filesystem::create_directories(inner);
    for (const char* name : {"", "a", "a/b"}) ::chmod((scratch / name).c_str(), 0777);
#ifdef PIPESIM_SANITIZED  // which reserves more than there is
    const std::string limit;
#else
    const std::string limit = "ulimit -v 4000000 && ";
#endif
    Words argv{"/bin/sh", "-c", "cd \"$0\" && " + limit + "exec timeout -k 5 120 \"$@\"", inner};
    if (::geteuid() == 0) {
      for (const char* word : {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}) {
        argv.emplace_back(word);
      }
    }
    argv.insert(argv.end(), command.begin(), command.end());
    return testing::run_command(argv, {"QT_QPA_PLATFORM=offscreen", "HOME=/nonexistent"});
  }

  Words argv_of(const Trial& trial) const {
    Words before;
    Words after;  // `--` and a command
    for (const std::string& word : testing::words(std::string(trial.line))) {
      (word == "--" || !after.empty() ? after : before).push_back(placed(word));
    }
    const std::string text = placed(std::string(trial.text));
    if (trial.argument >= 0 && !after.empty()) {
      after = {"--", text};
    } else if (trial.argument >= 0) {
      const auto place = static_cast<std::size_t>(trial.argument);
      if (place < before.size() && !before[place].starts_with('-')) {
        before[place] = text;
      } else {
        before.insert(before.begin(), text);
      }
    } else if (trial.flag != nullptr) {
      const std::string& name = trial.flag->names.back();
      const auto given = std::ranges::find(before, name);
      const std::ptrdiff_t words = trial.flag->type.empty() ? 1 : 2;
      before.erase(given, given + std::min(words, before.end() - given));
      before.push_back(name);
      if (!trial.flag->type.empty()) before.push_back(text);
    }
    Words argv = trial.command->words;
    argv.front() = program(argv.front());
    argv.insert(argv.end(), before.begin(), before.end());
    argv.insert(argv.end(), after.begin(), after.end());
    return argv;
  }

  // Empty if all is well.
  static std::string fault_of(const Outcome& outcome, const std::string& name) {
    // `supervise` ends as the last attempt did, which it may have ended by a signal.
    const bool gave_up = outcome.err.find("pipeexec supervise: ") != std::string::npos &&
                         outcome.err.find(": not done: ") != std::string::npos;
    if (!gave_up && (outcome.status < 0 || outcome.status > 2)) {
      return "ended with " + std::to_string(outcome.status);
    }
    if (outcome.err.find("a fault of this program") != std::string::npos) return "is at fault";
    const bool speaks =
        outcome.err.starts_with(name + ": ") || outcome.err.starts_with(name + " supervise: ");
    return outcome.status == 0 || speaks ? "" : "says no sentence";
  }

  void try_all(const std::string& name) const;
  // Of an empty text on the first line, and the others.
  void add_trials(const CommandHelp& command, std::vector<Trial>& first,
                  std::vector<Trial>& others) const;

  testing::TemporaryFolder folder_;
};

void FlagTexts::add_trials(const CommandHelp& command, std::vector<Trial>& first,
                           std::vector<Trial>& others) const {
  static const Words texts = absurd_texts();
  static const Words no_text{""};
  const std::string typed = fmt::format("{}", fmt::join(command.words, " "));
  const auto lines = lines_of_commands().find(typed);
  ASSERT_NE(lines, lines_of_commands().end()) << typed << ": add a line of it";
  for (const std::string& line : lines->second) {
    const Outcome plain = run(argv_of({&command, line, nullptr, -1, ""}));
    EXPECT_EQ(plain.status, 0) << typed << " " << line << "\n" << plain.err;
    const auto add = [&](const HelpFlag& flag, int argument) {
      const bool is_switch = argument < 0 && flag.type.empty();
      for (const std::string& text : is_switch ? no_text : texts) {
        const bool is_first = text.empty() && line == lines->second.front();
        if (argument >= 0 && text == "--") continue;  // makes arguments of the line's flags
        (is_first ? first : others).push_back({&command, line, &flag, argument, text});
      }
    };
    for (const HelpFlag& flag : command.flags) add(flag, -1);
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
      add(command.arguments[i], static_cast<int>(i));
    }
  }
}

void FlagTexts::try_all(const std::string& name) const {
  std::vector<Trial> trials;
  std::vector<Trial> others;
  std::vector<CommandHelp> commands;
  for (CommandHelp& command : testing::all_help_of({program(name)})) {
    command.words.front() = name;
    const bool does_nothing = !command.commands.empty() && command.words.size() > 1;
    if (!does_nothing) commands.push_back(std::move(command));
  }
  for (const CommandHelp& command : commands) add_trials(command, trials, others);
  const std::vector<Trial> some = testing::tried(others, 40);
  trials.insert(trials.end(), some.begin(), some.end());
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::vector<std::string> faults;
  const auto work = [&] {
    for (std::size_t i = next++; i < trials.size(); i = next++) {
      const Outcome outcome = run(argv_of(trials[i]));
      const std::string fault = fault_of(outcome, name);
      if (fault.empty()) continue;
      const std::lock_guard lock(guard);
      faults.push_back(
          fmt::format("{}: {}\n{}", trials[i].shown(), fault, outcome.err.substr(0, 500)));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  }
  std::ranges::sort(faults);
  for (const std::string& fault : faults) ADD_FAILURE() << fault;
}

TEST_F(FlagTexts, OfPipesimEndInASentence) { try_all("pipesim"); }
TEST_F(FlagTexts, OfPipeexecEndInASentence) { try_all("pipeexec"); }
#ifdef PIPEVIEW_COMMAND
TEST_F(FlagTexts, OfPipeviewEndInASentence) { try_all("pipeview"); }
#endif

}  // namespace
}  // namespace pipesim
