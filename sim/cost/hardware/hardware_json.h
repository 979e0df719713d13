// Shared by the readers of devices and clusters: values with units and sources.
//
// A value is written plainly, or as {"value": ..., "source": "...",
// "unverified": true}. Refers to the document; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/hardware/device.h"
#include "traces/base/json_reader.h"

namespace pipesim {

// Collects the keys of values that are marked as unverified, as paths from
// `root` on.
class Sources {
 public:
  Sources(const JsonCursor& root, std::vector<std::string>& unverified)
      : prefix_(root.path().empty() ? 0 : root.path().size() + 1), unverified_(&unverified) {}

  // The value itself, which has the path of the whole.
  JsonCursor value(const JsonCursor& given) const;

 private:
  std::size_t prefix_;
  std::vector<std::string>* unverified_;
};

// An object whose members are values with sources. `convert` turns a cursor
// into what the member holds, or complains.
class Section {
 public:
  Section(const JsonCursor& object, const Sources& sources)
      : members_(object), sources_(&sources) {}

  template <typename Field, typename Convert>
  void required(std::string_view key, Field& field, Convert convert) {
    field = convert(sources_->value(members_.required(key)));
  }
  // Required unless there is a base, whose value is then the default.
  template <typename Field, typename Convert>
  void needed(bool has_base, std::string_view key, Field& field, Convert convert) {
    if (has_base) {
      optional(key, field, convert);
    } else {
      required(key, field, convert);
    }
  }
  // An absent member leaves the field as it is.
  template <typename Field, typename Convert>
  void optional(std::string_view key, Field& field, Convert convert) {
    members_.optional(key,
                      [&](const JsonCursor& given) { field = convert(sources_->value(given)); });
  }
  // Members that are not values, such as sections within this one.
  JsonMembers& members() { return members_; }
  const Sources& sources() const { return *sources_; }
  void finish() const { members_.finish(); }

 private:
  JsonMembers members_;
  const Sources* sources_;
};

// Strings with units.
std::int64_t read_size(const JsonCursor& value);   // above 0
std::int64_t read_bytes(const JsonCursor& value);  // from 0 on
std::int64_t read_bandwidth(const JsonCursor& value);
std::int64_t read_time(const JsonCursor& value);
double read_flops(const JsonCursor& value);
// At what size half of a rate is reached.
std::int64_t read_ramp(const JsonCursor& value);

// Numbers.
std::int64_t read_count(const JsonCursor& value);       // 1 or more
std::int64_t read_node_count(const JsonCursor& value);  // 2 or more
double read_share(const JsonCursor& value);             // in (0, 1]
double read_part(const JsonCursor& value);              // in [0, 1]
double read_factor(const JsonCursor& value);            // in (0, 100]
double read_least_factor(const JsonCursor& value);      // in [1, 100]

[[noreturn]] void fail_order(const JsonCursor& item, std::int64_t nodes, std::int64_t before);

// A list by ascending `nodes`, from 2 on; `read` takes the other keys of an item.
template <typename Item, typename Read>
std::vector<Item> read_by_nodes(const JsonCursor& list, const Sources& sources, Read read) {
  std::vector<Item> items;
  for (const JsonCursor& given : list.array()) {
    Section section(given, sources);
    Item item;
    section.required("nodes", item.nodes, read_node_count);
    read(section, item);
    section.finish();
    if (!items.empty() && item.nodes <= items.back().nodes) {
      fail_order(given, item.nodes, items.back().nodes);
    }
    items.push_back(std::move(item));
  }
  return items;
}

// A device within another document: `format` and `version` may be left out. `base`: the device that
// it changes if it names no base itself.
DeviceSpec read_device(const JsonCursor& object, std::optional<DeviceSpec> base = {});

// The sections `kernels` of a device and of software; they change what is there.
void read_kernel_rates(const JsonCursor& object, const Sources& sources,
                       std::optional<KernelRates>& kernels);
void read_kernel_list(const JsonCursor& object, const Sources& sources,
                      std::optional<KernelList>& kernels);

// Keeps a base's unverified keys except those that `object` gives itself, and adds the object's
// own.
void replace_unverified(const JsonCursor& object, std::vector<std::string> own,
                        std::vector<std::string>& unverified);

}  // namespace pipesim
