// A document's settings by path, and which of them have not been read.
// Refers to the document, which must outlive it. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/imported.h"
#include "traces/base/json_reader.h"

namespace pipesim {

class Settings {
 public:
  explicit Settings(const JsonCursor& root);

  // By path, "parallelism.tensor_parallel_degree"; null counts as absent.
  std::optional<JsonCursor> find(std::string_view path);
  std::int64_t integer_or(std::string_view path, std::int64_t fallback, std::int64_t least = 1,
                          std::int64_t most = 1'000'000'000);
  bool boolean_or(std::string_view path, bool fallback);
  std::string text_or(std::string_view path, std::string_view fallback);

  // "path = value", on one line, cut if it is long.
  static std::string text_of(std::string_view path, const JsonValue& value);
  // The same for an existing setting.
  std::string text_of(std::string_view path);

  // Every setting that has not been read, in the order of the document.
  struct Leaf {
    std::string path;
    const JsonValue* value = nullptr;
  };
  std::vector<Leaf> rest() const;
  const std::vector<Leaf>& all() const { return leaves_; }

 private:
  void collect(const JsonValue& value, const std::string& path);

  JsonCursor root_;
  std::vector<Leaf> leaves_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace pipesim
