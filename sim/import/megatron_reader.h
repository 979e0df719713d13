// What the readers of Megatron-LM's arguments share: remarks on them, and the model.
//
// Refers to the arguments and to what is filled in, which outlive it. One thread.
#pragma once

#include <cstdint>
#include <optional>
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

  std::int64_t count_of_ranks(std::string_view name, std::int64_t usual = 1) {
    constexpr std::int64_t most = 1'000'000;  // so that products stay within 64 bits
    const std::int64_t count = arguments_.integer_or(name, usual);
    if (count > most) arguments_.fail(name, "more than a million ranks; give fewer");
    return count;
  }

  Arguments& arguments_;
  Imported& imported_;
};

// How many ranks share what.
struct MegatronRanks {
  std::int64_t tensor = 1;               // each layer
  std::int64_t stages = 1;               // the layers
  std::int64_t contexts = 1;             // each sequence
  std::int64_t experts = 1;              // the experts of a block
  std::int64_t split = 1;                // each of them
  std::optional<std::int64_t> replicas;  // if the number of devices is known

  // Of the same weights of all but routed experts.
  std::optional<std::int64_t> holders() const {
    if (!replicas) return std::nullopt;
    return *replicas * contexts;
  }
};

// Reads how ranks share sequences and experts, and fills in those that share experts.
void read_megatron_spread(Arguments& arguments, Imported& imported, MegatronRanks& ranks);

// Reads the model, if the arguments say anything of it, whose vocabulary so many tensor-parallel
// ranks share.
void read_megatron_model(Arguments& arguments, const ImportQuestion& question, std::int64_t tensor,
                         Imported& imported);

}  // namespace pipesim
