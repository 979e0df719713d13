// `pipesim import`: other programs' configurations as commands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/outputs.h"
#include "sim/cli/shell_command.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/import/imported.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

struct ImportFlags {
  Flag file, model, cluster, devices, vocabulary, write_model;
  std::vector<std::string> ignored;
  bool json = false;
};

// The command, and what it still lacks.
struct ImportCommand {
  std::vector<std::string> words;
  std::vector<Remark> missing;
};

bool is_flag(const std::string& word, const std::string& flag) {
  return word == flag || word.starts_with(flag + " ");
}

ImportCommand import_command(const ImportFlags& flags, const Imported& imported,
                             const Model* known) {
  ImportCommand command;
  command.words.emplace_back("pipesim");
  if (flags.model) {
    command.words.push_back("--model " + shell_word(*flags.model));
  } else if (known != nullptr) {
    command.words.push_back("--model " + known->name);
  } else if (imported.model) {
    command.words.push_back("--model " + shell_word(flags.write_model.value_or("model.json")));
  }
  if (flags.cluster) {
    command.words.push_back("--cluster " + shell_word(*flags.cluster));
  } else {
    command.missing.push_back(
        {"--cluster", "cluster to run on, name or file (`pipesim clusters`)"});
  }
  if (imported.devices) {
    command.words.push_back(fmt::format("--devices {}", *imported.devices));
  } else if (flags.devices) {
    command.words.push_back("--devices " + *flags.devices);
  }
  if (!imported.software.empty()) command.words.push_back("--software " + imported.software);
  // The schedule first, as elsewhere.
  std::vector<Imported::Flag> own = imported.flags;
  std::stable_partition(own.begin(), own.end(), [](const Imported::Flag& flag) {
    constexpr std::array first{"--schedule", "--stages", "--virtual-stages", "--group", "--layout"};
    return std::ranges::find(first, flag.name) != first.end();
  });
  for (const Imported::Flag& flag : own) {
    command.words.push_back(flag.name);
    if (!flag.value.empty()) command.words.back() += " " + shell_word(flag.value);
  }
  for (const Remark& one : imported.missing) {
    const bool is_given = std::ranges::any_of(
        command.words, [&](const std::string& word) { return is_flag(word, one.what); });
    if (!is_given || one.what == "--precision") command.missing.push_back(one);
  }
  return command;
}

// A remark per line, with reasons in a column if there is room.
std::string remark_lines(const std::vector<Remark>& remarks, int width) {
  std::string out;
  for (const Remark& one : remarks) {
    out += wrap(fmt::format("  {}: {}", one.what, one.why), width) + "\n";
  }
  return out;
}

std::string import_report(const ImportFlags& flags, const Imported& imported, const Model* known,
                          const Terminal& terminal) {
  const ImportCommand command = import_command(flags, imported, known);
  std::string without;
  for (const Remark& one : imported.without_counterpart) {
    without += (without.empty() ? ", without " : " and ") + one.what;
  }
  const std::string head =
      fmt::format("{}: {}{}", printable(*flags.file), imported.format, without);
  std::string out = bold(wrap(head, terminal.width), terminal.colour) + "\n\n" +
                    command_text(command.words, "  ", terminal.width);
  if (!command.missing.empty()) {
    out += "\nTo add:\n" + remark_lines(command.missing, terminal.width);
  }
  if (imported.model && known == nullptr && !flags.model) {
    if (flags.write_model) {
      out += fmt::format("\nThe model, {} parameters, is written to {}.\n",
                         format_count(imported.model->parameters()), printable(*flags.write_model));
    } else {
      out +=
          fmt::format("\nThe model, {} parameters, none known by name (--write-model FILE):\n{}\n",
                      format_count(imported.model->parameters()), to_json(*imported.model, 2));
    }
  }
  if (!imported.without_counterpart.empty()) {
    out += "\nIgnored, though it counts:\n" +
           remark_lines(imported.without_counterpart, terminal.width);
  }
  if (!imported.approximated.empty()) {
    out += "\nApproximated:\n" + remark_lines(imported.approximated, terminal.width);
  }
  if (!imported.without_effect.empty()) {
    out += "\nNo effect here:\n";
    for (const std::string& one : imported.without_effect) {
      out += wrap("  " + one, terminal.width) + "\n";
    }
  }
  return out;
}

Json remarks_json(const std::vector<Remark>& remarks, const char* what) {
  Json list = Json::array();
  for (const Remark& one : remarks) {
    Json item;
    item[what] = one.what;
    item["why"] = one.why;
    list.push_back(std::move(item));
  }
  return list;
}

std::string import_json(const ImportFlags& flags, const Imported& imported, const Model* known) {
  const ImportCommand command = import_command(flags, imported, known);
  std::string line = command.words.front();
  for (std::size_t i = 1; i < command.words.size(); ++i) line += " " + command.words[i];
  Json json;
  json["format"] = "pipesim-import";
  json["version"] = 1;
  json["file"] = *flags.file;
  json["of"] = imported.format;
  json["command"] = line;
  json["missing"] = remarks_json(command.missing, "flag");
  Json model;
  if (imported.model) model = Json::verbatim(to_json(*imported.model));
  json["model"] = std::move(model);
  json["approximated"] = remarks_json(imported.approximated, "setting");
  json["without_counterpart"] = remarks_json(imported.without_counterpart, "setting");
  json["without_effect"] = imported.without_effect;
  return json.dump(2) + "\n";
}

void run(const ImportFlags& flags) {
  if (!flags.file) {
    throw input_error(
        "FILE is missing: arguments of Megatron-LM, TOML of torchtitan, or JSON of DeepSpeed");
  }
  check_outputs({{"FILE", flags.file}, {"--write-model", flags.write_model, true}});
  ImportQuestion question;
  if (flags.devices) question.devices = parse_count(*flags.devices, "--devices");
  if (flags.vocabulary) question.vocabulary = parse_count(*flags.vocabulary, "--vocabulary");
  const Imported imported = import_training(read_file(*flags.file), *flags.file, question);
  refuse_unmodelled(imported, *flags.file, flags.ignored);
  const Model* known = imported.model ? known_model_like(*imported.model) : nullptr;
  if (flags.write_model) {
    if (!imported.model) {
      throw input_error(fmt::format("--write-model: {} describes no model; omit the flag",
                                    printable(*flags.file)));
    }
    write_file(*flags.write_model, to_json(*imported.model, 2) + "\n");
  }
  print(flags.json ? import_json(flags, imported, known)
                   : import_report(flags, imported, known, standard_output()));
}

}  // namespace

void set_up_import(CommandLine& command) {
  auto flags = std::make_shared<ImportFlags>();
  command.add_flags("", {{"file", &flags->file, "FILE", "file to import; see below"}});
  command.add_flags(
      "What the file may lack",
      {{"--cluster", &flags->cluster, "NAME|FILE.json", "cluster for the command", known_clusters},
       {"--devices", &flags->devices, "N", "total devices; replicas follow"},
       {"--model", &flags->model, "NAME|FILE.json", "instead of the file's model", model_names},
       {"--vocabulary", &flags->vocabulary, "N", "vocabulary size of the tokenizer"},
       {"--ignore", &flags->ignored, "A,B", "predicts without these settings of it"}});
  command.add_flags(
      "Output", {{"--write-model", &flags->write_model, "FILE.json", "writes the model as a file"},
                 {"--json", &flags->json, "prints one JSON object"}});
  command.set_footer(
      "The format is recognized from the contents:\n"
      "  Megatron-LM  arguments, as a list or in a shell script; variables are\n"
      "               expanded where the script sets them\n"
      "  torchtitan   a job's TOML, in the form used until February 2026\n"
      "  DeepSpeed    JSON, which says how to train, but not which model\n"
      "\n"
      "Prints the command that predicts the same job, what to add to it, and\n"
      "every setting that is approximated or has no effect here. Settings that are\n"
      "not modelled are refused, unless --ignore names them.\n"
      "\n"
      "Examples:\n"
      "  pipesim import pretrain_gpt.sh --cluster dgx-h100 --devices 64\n"
      "  pipesim import llama3_8b.toml --devices 64\n"
      "  pipesim import ds_config.json --json");
  command.set_work([flags] { run(*flags); });
}

}  // namespace pipesim::cli
