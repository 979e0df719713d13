// What a type of transformers' models is made of: the rows of hugging_face_types.json.
//
// A row has what it doesn't say from the one it is `like`, and that in the end from "usual":
//   class        among the `architectures` of a config.json
//   keys         the config's names, in order, of what pipesim calls otherwise; null: it has none
//   defaults     of keys that a config.json leaves out
//   model        how it differs from an architecture, as in a pipesim-model
//   if_true, if_false  how it differs further if a key is so
//   biases       what a key that is true adds biases to
//   windows, experts, latent, predicts, dropouts  parts that it has: see hugging_face.cpp
//   noted, refused_if_true, refused_if_false  what is said of a key
// Names and defaults are those of transformers 5.24, src/transformers/models/*/configuration_*.py,
// and parts those of modeling_*.py next to them. Constant; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/base/json_reader.h"

namespace pipesim {

// The member at "a.b" of `value`; nullptr if there is none.
const JsonValue* member_at(const JsonValue& value, std::string_view path);
// Whether there is one that is not null.
bool is_given(const JsonValue& document, std::string_view key);
// The strings of a list, or a string as the only one.
std::vector<std::string> strings_of(const JsonCursor& value);

class ConfigType {
 public:
  static std::optional<ConfigType> find(std::string_view name);
  // The type of a config.json, by `model_type`, or else `usual` or `architectures`. One that is not
  // read is an input error.
  static ConfigType of(const JsonCursor& root, std::string_view usual,
                       std::vector<std::string>* notes);
  static std::vector<std::string> names();
  // Why a type that is known is not read: "is an encoder-decoder".
  static std::optional<std::string> refusal_of(std::string_view name);
  static std::vector<std::string> keys_without_effect();

  const std::string& name() const { return name_; }
  // None if the nearest row that has it says null.
  std::optional<JsonCursor> setting(std::string_view key) const { return nearest({}, key); }
  // The same of a member of an object that each row has a part of.
  std::optional<JsonCursor> nearest(std::string_view object, std::string_view key) const;
  // The members of an object in all rows.
  std::vector<std::pair<std::string, JsonCursor>> members(std::string_view object) const;

 private:
  explicit ConfigType(std::string_view name) : name_(name) {}

  std::string name_;
  std::vector<const JsonValue*> rows_{};  // its own first
};

}  // namespace pipesim
