#include "exec/cli/checkpoint_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "exec/cli/checkpoint_report.h"
#include "exec/cli/parse_number.h"
#include "exec/model/layer.h"
#include "exec/saved/import.h"
#include "exec/saved/inspection.h"
#include "exec/saved/weight_file.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/command/outputs.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

std::optional<std::int64_t> iteration_of(const CheckpointCommandFlags& flags) {
  if (!flags.iteration) return std::nullopt;
  return parse_number<std::int64_t>(*flags.iteration, "--iteration", 0, max_iterations,
                                    "a whole number from 0");
}

void show(const CheckpointCommandFlags& flags) {
  const std::optional<std::int64_t> iteration = iteration_of(flags);
  const CheckpointList list = list_checkpoints(*flags.folder);
  const CheckpointSummary& one = choose_checkpoint(list, *flags.folder, iteration);
  ShownNumbers numbers;
  try {
    numbers.layers = numbers_by_layer(one);
  } catch (const Error& error) {
    numbers.fault = error.what();
  }
  print(flags.json ? checkpoint_json(list, one, numbers) : checkpoint_text(list, one, numbers));
}

// One line per checkpoint, the newest first.
void verify(const CheckpointCommandFlags& flags) {
  const CheckpointList list = list_checkpoints(*flags.folder);
  std::string first;
  std::int64_t faults = 0;
  const auto tell = [&](const std::string& fault) {
    print(fmt::format("damaged: {}\n", fault));
    if (faults++ == 0) first = fault;
  };
  for (const CheckpointSummary& one : list.by_age) {
    if (const auto fault = find_fault(one)) {
      tell(*fault);
    } else {
      print(fmt::format("{}: {}\n", one.name(), completeness(one)));
    }
  }
  for (const std::string& damage : list.damaged) tell(damage);
  finish_printing();
  if (faults == 0) return;
  const auto all = static_cast<std::int64_t>(list.by_age.size() + list.damaged.size());
  throw work_error(fmt::format("{}: {} of {} {} damaged; the first: {}", printable(*flags.folder),
                               faults, plural(all, "checkpoint"), faults == 1 ? "is" : "are",
                               first));
}

void write_export(const CheckpointCommandFlags& flags) {
  const std::optional<std::int64_t> iteration = iteration_of(flags);
  check_outputs({{"the weights", flags.weights, true}, {"--config", flags.config, true}});
  if (flags.weights->ends_with(".gz")) {
    throw input_error(
        fmt::format("{}: safetensors are not compressed; omit .gz", printable(*flags.weights)));
  }
  const CheckpointSummary one =
      find_complete_checkpoint(*flags.folder, iteration, [](const std::string& damage) {
        complain(fmt::format("pipeexec: passes over a checkpoint: {}\n", printable(damage)));
      });
  if (!one.facts.model) {
    throw input_error(
        fmt::format("{}: {} is a recommendation model, for which Hugging Face has "
                    "no names; export a gpt or llama",
                    printable(*flags.folder), quote(one.facts.model_name)));
  }
  const Model& model = *one.facts.model;
  check_publishable(model, printable(*flags.folder));
  OutputFile file(*flags.weights);
  std::optional<OutputFile> config;
  if (flags.config) config.emplace(*flags.config);
  const CheckpointReader reader(one.found.path, one.found.manifest);
  const std::size_t tensors = write_weights(reader, model, file);
  if (config) config->write(published_config(model));
  file.commit();
  if (config) config->commit();
  print(fmt::format("{}: {} of {}, iteration {}\n", printable(*flags.weights),
                    plural(static_cast<std::int64_t>(tensors), "tensor"), printable(model.name),
                    one.found.manifest.iteration));
}

void read_import(const CheckpointCommandFlags& flags) {
  if (flags.saved->empty()) throw input_error("--checkpoint: give a folder");
  std::vector<std::string> notes;
  const Model model = find_model(*flags.model, &notes);
  for (const std::string& note : notes) complain(fmt::format("pipeexec: note: {}\n", note));
  check_trainable(model, "--model");
  check_publishable(model, "--model");
  const std::int64_t bytes = import_weights(*flags.weights, model, machine_disk(), *flags.saved);
  print(fmt::format("{}: {} as iteration 0, {}; pipeexec --resume {} starts from it\n",
                    printable(*flags.saved), printable(model.name), format_bytes(bytes),
                    printable(*flags.saved)));
}

}  // namespace

void add_checkpoint(CommandLine& program, CheckpointCommandFlags& flags,
                    const std::optional<Launch>& launch) {
  CommandLine& all =
      program.add_command("checkpoint", "Shows checkpoints; exports and imports weights.");
  all.set_footer("DIR is the folder given as --checkpoint. Each subcommand has its own --help.");
  const auto add = [&](const std::string& name, const std::string& about,
                       void (*work)(const CheckpointCommandFlags&)) -> CommandLine& {
    CommandLine& command = all.add_command(name, about);
    command.set_work([name, work, &flags, &launch] {
      if (launch && launch->ranks > 1) {
        throw input_error(
            fmt::format("{} has started {} of checkpoint {}; one is enough, without "
                        "a launcher",
                        launch->launcher, launch->ranks, name));
      }
      work(flags);
    });
    return command;
  };
  const auto folder = [&] {
    return FlagHelp("folder", &flags.folder, "DIR", "folder of checkpoints").required();
  };
  const FlagHelp iteration("--iteration", &flags.iteration, "N",
                           "iteration of the checkpoint; default the newest");

  CommandLine& shown = add("show", "Lists checkpoints, or one's contents by layer.", show);
  shown.add_flags("", {folder(), iteration, {"--json", &flags.json, "prints one JSON object"}});
  shown.set_footer(
      "The newest comes first. DIR/latest names it for scripts. Files are\n"
      "not read: `pipeexec checkpoint verify` does that.\n"
      "\n"
      "Example:\n"
      "  pipeexec checkpoint show ck --iteration 20");

  CommandLine& verified =
      add("verify", "Reads all checkpoints and checks each is complete.", verify);
  verified.add_flags("", {folder()});
  verified.set_footer(
      "A checkpoint is complete if each file matches its manifest, and the\n"
      "weights and both moments of every parameter of its model are there. Exit status\n"
      "0 if all are complete, 1 if one is not, 2 if there is none.");

  CommandLine& exported =
      add("export", "Writes weights as Hugging Face safetensors.", write_export);
  exported.add_flags(
      "", {folder(),
           FlagHelp("file", &flags.weights, "FILE.safetensors", "file to write").required(),
           iteration,
           {"--config", &flags.config, "FILE.json", "config.json for transformers"}});
  exported.set_footer(
      "A gpt becomes transformers' GPT-2, a llama its Llama, or with qkv_bias its\n"
      "Qwen2; in float32. Takes the newest complete checkpoint.\n"
      "\n"
      "Example, into a folder for from_pretrained():\n"
      "  pipeexec checkpoint export ck out/model.safetensors --config out/config.json");

  CommandLine& imported =
      add("import", "Makes a checkpoint from Hugging Face safetensors.", read_import);
  imported.add_flags(
      "", {FlagHelp("file", &flags.weights, "FILE.safetensors", "weights in F32, F16 or BF16")
               .required(),
           FlagHelp("--model", &flags.model, "NAME|FILE.json", "model the weights belong to",
                    model_names)
               .required(),
           FlagHelp("--checkpoint", &flags.saved, "DIR", "an empty or new folder").required()});
  imported.set_footer(
      "The checkpoint is at iteration 0, with zero moments: any training of the model\n"
      "can start from it, with any seed, text and layout.\n"
      "\n"
      "Example:\n"
      "  pipeexec checkpoint import gpt2.safetensors --model gpt2-small --checkpoint ck\n"
      "  pipeexec --resume ck --model gpt2-small --schedule 1f1b --stages 2 \\\n"
      "    --microbatches 4");
}

}  // namespace pipesim::exec
