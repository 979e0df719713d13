#include "sim/cost/hardware/hardware_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/text.h"

namespace pipesim {
namespace {

// Parses a string with a unit; the error for a bare number suggests `unit`.
template <typename Parse>
auto read_quantity(const JsonCursor& value, std::string_view unit, Parse parse) {
  const JsonValue& given = value.value();
  if (given.get_if<std::int64_t>() != nullptr || given.get_if<double>() != nullptr) {
    const double number = value.number();
    value.fail(fmt::format("{} has no unit; write \"{}{}\"", number, number, unit));
  }
  return parse(value.string(), value.place());
}

double read_between(const JsonCursor& value, double least, double most, std::string_view range) {
  const double number = value.number();
  if (!(number >= least && number <= most)) {
    value.fail(fmt::format("{} is out of range: it must be {}", number, range));
  }
  return number;
}

// Whether an object has a value at a path such as "matmul.ramp", or a list that it is of.
bool says(const JsonCursor& object, std::string_view path) {
  const JsonValue* at = &object.value();
  while (!path.empty()) {
    const auto* members = at->get_if<JsonValue::Object>();
    if (members == nullptr) return false;
    const std::string_view key = path.substr(0, path.find_first_of(".["));
    const auto found = std::ranges::find(*members, key, &JsonValue::Member::first);
    if (found == members->end()) return false;
    at = &found->second;
    if (path.substr(key.size()).starts_with('[')) return true;
    path.remove_prefix(std::min(path.size(), key.size() + 1));
  }
  return true;
}

constexpr double largest_factor = 100;
constexpr double smallest = 1e-6;  // for values that must be positive

}  // namespace

JsonCursor Sources::value(const JsonCursor& given) const {
  if (given.value().get_if<JsonValue::Object>() == nullptr) return given;
  JsonMembers members(given);
  const JsonCursor value = members.required("value");
  members.optional("source", [](const JsonCursor& source) {
    if (strip(source.string()).empty()) source.fail("is empty; say where the value is from");
  });
  if (members.boolean_or("unverified", false)) {
    unverified_->push_back(given.path().substr(prefix_));
  }
  members.finish();
  return {value.value(), value.file(), given.path()};
}

void replace_unverified(const JsonCursor& object, std::vector<std::string> own,
                        std::vector<std::string>& unverified) {
  std::erase_if(unverified, [&](const std::string& key) { return says(object, key); });
  unverified.insert(unverified.end(), own.begin(), own.end());
}

std::int64_t read_bytes(const JsonCursor& value) {
  return read_quantity(value, "GiB", parse_bytes);
}

std::int64_t read_size(const JsonCursor& value) {
  const std::int64_t bytes = read_bytes(value);
  if (bytes == 0) value.fail("0 bytes hold nothing; give the size");
  return bytes;
}

std::int64_t read_bandwidth(const JsonCursor& value) {
  const auto* text = value.value().get_if<std::string>();
  if (text != nullptr && text->find_first_of("123456789") == std::string::npos &&
      text->find('0') != std::string::npos) {
    value.fail(fmt::format("{} moves nothing; give what is reached", quote(*text)));
  }
  return read_quantity(value, "GB/s", parse_bytes_per_second);
}

std::int64_t read_time(const JsonCursor& value) {
  return read_quantity(value, "us", parse_time_ns);
}

std::int64_t read_ramp(const JsonCursor& value) { return value.integer(0, 1 << 20); }

double read_flops(const JsonCursor& value) {
  return static_cast<double>(read_quantity(value, "TFLOP/s", parse_flops_per_second));
}

std::int64_t read_count(const JsonCursor& value) { return value.integer(1, max_count); }

std::int64_t read_node_count(const JsonCursor& value) { return value.integer(2, max_count); }

void fail_order(const JsonCursor& item, std::int64_t nodes, std::int64_t before) {
  item.fail(fmt::format("{} nodes after {}; list them by ascending nodes", nodes, before));
}

double read_share(const JsonCursor& value) {
  return read_between(value, smallest, 1, "a share of more than 0 and at most 1");
}

double read_part(const JsonCursor& value) { return read_between(value, 0, 1, "between 0 and 1"); }

double read_factor(const JsonCursor& value) {
  return read_between(value, smallest, largest_factor, "a factor of more than 0 and at most 100");
}

double read_least_factor(const JsonCursor& value) {
  return read_between(value, 1, largest_factor, "a factor between 1 and 100");
}

}  // namespace pipesim
