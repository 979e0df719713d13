// What a configuration of another program says, in pipesim's words.
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

// What the file may leave open.
struct ImportQuestion {
  std::optional<std::int64_t> devices;     // all there are
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

  std::string format;                   // "Megatron-LM arguments"
  std::string software;                 // a preset; empty: the usual one of a device
  std::optional<Model> model;           // that it describes
  std::optional<std::int64_t> devices;  // as asked, or as it says
  std::vector<Flag> flags;              // of pipesim; no model, no cluster
  std::vector<Remark> missing;          // flags that the command needs besides
  std::vector<Remark> without_counterpart;
  std::vector<std::string> without_effect;  // settings that change nothing in a prediction

  void add(std::string_view flag, std::string_view value = {}) {
    flags.push_back({std::string(flag), std::string(value)});
  }
  void add(std::string_view flag, std::int64_t value) { add(flag, std::to_string(value)); }
};

// The model known by name with these layers, or null. Names do not count; nor does the longest
// sequence, where no table of positions ends.
const Model* known_model_like(const Model& model);

// "25MB", "1234B".
std::string bytes_flag(std::int64_t bytes);
// "5,4,4,5" of the layers of each virtual stage.
std::string layout_text(const std::vector<std::int64_t>& layers);

// Reads a file by what it holds: arguments of Megatron-LM, as a list or in a shell script; TOML
// of torchtitan; JSON of DeepSpeed. An input error where it is none of these, or contradicts
// itself.
Imported import_training(std::string_view text, const std::string& file,
                         const ImportQuestion& question);

}  // namespace pipesim
