// A configuration of another program translated to pipesim's flags.
//
// Readers fill it in, one for each format. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim {

// Inputs that the file may lack.
struct ImportQuestion {
  std::optional<std::int64_t> devices;     // all of them
  std::optional<std::int64_t> vocabulary;  // words of the tokenizer
};

// A setting or a flag, and why it is listed.
struct Remark {
  std::string what;  // "--context-parallel-size 2"
  std::string why;
};

struct Imported {
  struct Flag {
    std::string name, value;  // a switch has no value
  };

  std::string format;                       // "Megatron-LM arguments"
  std::string software;                     // a preset; empty: a device's default
  std::optional<Model> model;               // described by the file
  std::optional<std::int64_t> devices;      // from the question, or from the file
  std::vector<Flag> flags;                  // pipesim's; without model and cluster
  std::vector<std::string> settings;        // names of all that the file gives
  std::vector<Remark> missing;              // other flags that the command needs
  std::vector<Remark> approximated;         // modelled nearly
  std::vector<Remark> without_counterpart;  // asked for, and not modelled
  std::vector<std::string> without_effect;  // settings that change nothing in a prediction

  void add(std::string_view flag, std::string_view value = {}) {
    flags.push_back({std::string(flag), std::string(value)});
  }
  void add(std::string_view flag, std::int64_t value) { add(flag, std::to_string(value)); }
};

// The known model with these layers, or null. Names do not count; nor does the longest sequence,
// unless there is a table of positions.
const Model* known_model_like(const Model& model);
// The kinds of its blocks, without what comes again and again to the end.
std::vector<BlockKind> shortest_kinds(const Model& model);

// Whether a text begins with one of several, which blanks separate.
bool starts_with_any(std::string_view text, std::string_view beginnings);
// "25MB", "1234B".
std::string bytes_flag(std::int64_t bytes);
// "5,4,4,5", from the layers of each virtual stage.
std::string layout_text(const std::vector<std::int64_t>& layers);

// Reads a file, recognized by its contents: Megatron-LM's arguments, as a list or in a shell
// script; torchtitan's TOML; DeepSpeed's JSON. Throws an input error if it is none of these, or
// contradicts itself.
Imported import_training(std::string_view text, const std::string& file,
                         const ImportQuestion& question);

// Throws unless all that is not modelled is among the settings that the user gives up: lists of
// names between commas, leading dashes aside. Throws for a name that is none of them, too.
void refuse_unmodelled(const Imported& imported, const std::string& file,
                       const std::vector<std::string>& lists);

}  // namespace pipesim
