// What the readers of Megatron-LM's arguments share: remarks on them, and the model.
//
// Refers to the arguments and to what is filled in, which outlive it. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "sim/import/arguments.h"
#include "sim/import/imported.h"

namespace pipesim {

class MegatronReader {
 protected:
  MegatronReader(Arguments& arguments, Imported& imported)
      : arguments_(arguments), imported_(imported) {}

  void lacks(const Arguments::Argument& argument, std::string why) {
    imported_.without_counterpart.push_back({Arguments::text_of(argument), std::move(why)});
  }
  // Of an argument, if it is given.
  void lacks(std::string_view name, std::string why) {
    if (const auto* argument = arguments_.find(name)) lacks(*argument, std::move(why));
  }
  void approximates(std::string_view name, std::string why) {
    if (const auto* argument = arguments_.find(name)) {
      imported_.approximated.push_back({Arguments::text_of(*argument), std::move(why)});
    }
  }
  void approximates_default(std::string what, std::string why) {
    imported_.approximated.push_back({std::move(what), std::move(why)});
  }

  Arguments& arguments_;
  Imported& imported_;
};

// Reads the model, if the arguments say anything of it, whose vocabulary so many tensor-parallel
// ranks share.
void read_megatron_model(Arguments& arguments, const ImportQuestion& question, std::int64_t tensor,
                         Imported& imported);

}  // namespace pipesim
