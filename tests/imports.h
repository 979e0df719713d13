// What tests of imported configurations share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/import/imported.h"
#include "tests/errors.h"

namespace pipesim::testing {

inline Imported import(const std::string& text, const ImportQuestion& question = {}) {
  return import_training(text, "f", question);
}
inline std::string import_refusal(const std::string& text, const ImportQuestion& question = {}) {
  return input_error_of([&] { import(text, question); });
}

using ImportedFlags = std::map<std::string, std::string>;
inline ImportedFlags flags_of(const Imported& imported) {
  ImportedFlags flags;
  for (const auto& [name, value] : imported.flags) {
    EXPECT_TRUE(flags.emplace(name, value).second) << name << " is given twice";
  }
  return flags;
}
inline bool has_remark(const std::vector<Remark>& remarks, const std::string& what) {
  return std::ranges::any_of(remarks, [&](const Remark& one) { return one.what == what; });
}
inline bool has_text(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

inline const std::string small_gpt =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
    "--max-position-embeddings 512 --vocab-size 1000 --micro-batch-size 2 --global-batch-size 64 ";

}  // namespace pipesim::testing
