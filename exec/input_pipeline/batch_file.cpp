// Batches in a file, as text: one sample per line.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "exec/input_pipeline/input_batch.h"
#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view batches_head = "pipesim-batches 1";

// All samples, and for each table where a sample's ids begin.
class FileSource final : public BatchSource {
 public:
  FileSource(std::string name, InputBatch all, std::int64_t dense_features)
      : name_(std::move(name)), all_(std::move(all)), dense_features_(dense_features) {
    for (const IdLists& ids : all_.ids) {
      std::vector<std::int64_t>& begins = begins_.emplace_back(1, 0);
      for (const std::int64_t length : ids.lengths) begins.push_back(begins.back() + length);
    }
  }

  std::string name() const override { return name_; }
  std::optional<std::int64_t> samples() const override { return all_.samples(); }

  InputBatch read(std::int64_t first, std::int64_t count) const override {
    const auto part = [](const auto& values, std::int64_t begin, std::int64_t end) {
      return std::vector(values.begin() + begin, values.begin() + end);
    };
    const std::int64_t end = first + count;
    InputBatch batch;
    batch.dense = part(all_.dense, first * dense_features_, end * dense_features_);
    batch.labels = part(all_.labels, first, end);
    for (std::size_t t = 0; t < all_.ids.size(); ++t) {
      const std::vector<std::int64_t>& begins = begins_[t];
      batch.ids.push_back({part(all_.ids[t].lengths, first, end),
                           part(all_.ids[t].values, begins[static_cast<std::size_t>(first)],
                                begins[static_cast<std::size_t>(end)])});
    }
    return batch;
  }

 private:
  std::string name_;
  InputBatch all_;
  std::int64_t dense_features_;
  std::vector<std::vector<std::int64_t>> begins_;
};

// Reads a file line by line.
class BatchFileReader {
 public:
  BatchFileReader(std::string_view text, const std::string& file, const RecommendationModel& model)
      : rest_(text), file_(file), model_(model) {}

  InputBatch read() {
    read_head();
    samples_.ids.resize(model_.tables.size());
    while (take_line()) read_sample();
    if (samples_.samples() != announced_) {
      fail(fmt::format("here it ends, after {} of {}; it is cut short, or line 2 is wrong",
                       format_count(samples_.samples()), plural(announced_, "sample")));
    }
    return std::move(samples_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw input_error(fmt::format("{}:{}: {}", file_, line_, what));
  }

  // The next line, without its end; false if there is none. A last line without an end may be
  // truncated.
  bool take_line() {
    ++line_;
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      fail("this line does not end; the file is cut short, or add a line break");
    }
    text_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    if (text_.ends_with('\r')) text_.remove_suffix(1);
    return true;
  }
  void need_line(std::string_view what) {
    if (!take_line()) fail(fmt::format("here it ends, but {} is missing", what));
  }

  void read_head() {
    const bool is_head = rest_.starts_with(batches_head) && take_line() && text_ == batches_head;
    if (!is_head) {
      line_ = 1;
      fail(fmt::format("not a file of batches, whose first line is '{}'", batches_head));
    }
    announced_ = read_number("samples", "the number of samples");
    const std::int64_t features = read_number("dense", "the number of dense features");
    if (features != model_.dense_features) {
      fail(fmt::format("{}, but the model '{}' has {}; take batches that are made for it",
                       plural(features, "dense feature"), printable(model_.name),
                       model_.dense_features));
    }
    for (const EmbeddingTable& table : model_.tables) {
      const std::string wanted = "table " + table.name;
      need_line(quote(wanted));
      if (text_ != wanted) {
        fail(fmt::format("{} instead of {}; tables are those of the model '{}', in its order",
                         quote(text_), quote(wanted), printable(model_.name)));
      }
    }
  }

  // "samples 1000".
  std::int64_t read_number(std::string_view key, std::string_view what) {
    need_line(what);
    std::string_view value = text_;
    if (value.starts_with(key) && value.substr(key.size()).starts_with(' ')) {
      value.remove_prefix(key.size() + 1);
      const std::optional<std::int64_t> number = whole(value);
      if (number && *number >= 0 && *number <= max_count) return *number;
    }
    fail(fmt::format("{} instead of {}, as in '{} 100'", quote(text_), what, key));
  }

  static std::optional<std::int64_t> whole(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
  }

  // The next number between blanks, or an empty text.
  static std::string_view take_word(std::string_view& text) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return text = {};
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    return word;
  }

  void read_sample() {
    if (samples_.samples() == announced_) {
      fail(fmt::format("more lines than the {} of line 2", plural(announced_, "sample")));
    }
    const std::vector<std::string_view> parts = split(text_, '|');
    if (parts.size() != model_.tables.size() + 2) {
      fail(fmt::format("{} between '|' instead of {}: the label, dense features, and ids of {}",
                       plural(static_cast<std::int64_t>(parts.size()), "part"),
                       model_.tables.size() + 2,
                       plural(static_cast<std::int64_t>(model_.tables.size()), "table")));
    }
    read_label(strip(parts[0]));
    read_dense(parts[1]);
    for (std::size_t t = 0; t < model_.tables.size(); ++t) read_ids(t, parts[t + 2]);
  }

  void read_label(std::string_view text) {
    if (text != "0" && text != "1") fail(fmt::format("the label is 0 or 1, not {}", quote(text)));
    samples_.labels.push_back(text == "1" ? 1.0F : 0.0F);
  }

  void read_dense(std::string_view text) {
    std::int64_t count = 0;
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text), ++count) {
      float value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
        fail(fmt::format("{} is not a dense feature, which is a number of float32", quote(word)));
      }
      samples_.dense.push_back(value);
    }
    if (count != model_.dense_features) {
      fail(fmt::format("{} instead of {}", plural(count, "dense feature"), model_.dense_features));
    }
  }

  void read_ids(std::size_t t, std::string_view text) {
    const EmbeddingTable& table = model_.tables[t];
    IdLists& lists = samples_.ids[t];
    std::int64_t count = 0;
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text), ++count) {
      const std::optional<std::int64_t> id = whole(word);
      if (!id)
        fail(fmt::format("{} is not an id of table '{}'", quote(word), printable(table.name)));
      if (*id < 0 || *id >= table.rows) {
        fail(fmt::format("id {} is not in table '{}', whose ids are 0 to {}", *id,
                         printable(table.name), table.rows - 1));
      }
      lists.values.push_back(*id);
    }
    lists.lengths.push_back(count);
  }

  std::string_view rest_;
  const std::string& file_;
  const RecommendationModel& model_;
  std::string_view text_;  // of the line
  std::int64_t line_ = 0;
  std::int64_t announced_ = 0;
  InputBatch samples_;
};

}  // namespace

std::unique_ptr<BatchSource> parse_batches(std::string_view text, const std::string& file,
                                           const RecommendationModel& model) {
  return std::make_unique<FileSource>(file, BatchFileReader(text, file, model).read(),
                                      model.dense_features);
}

std::unique_ptr<BatchSource> read_batches(const std::string& path,
                                          const RecommendationModel& model) {
  return parse_batches(read_file(path), path, model);
}

std::string batches_to_text(const InputBatch& samples, const RecommendationModel& model) {
  std::string text = fmt::format("{}\nsamples {}\ndense {}\n", batches_head, samples.samples(),
                                 model.dense_features);
  for (const EmbeddingTable& table : model.tables) text += "table " + table.name + "\n";
  const float* dense = samples.dense.data();
  std::vector<const std::int64_t*> next;
  for (const IdLists& lists : samples.ids) next.push_back(lists.values.data());
  for (std::size_t s = 0; s < samples.labels.size(); ++s) {
    text += samples.labels[s] == 0 ? "0 |" : "1 |";
    for (std::int64_t i = 0; i < model.dense_features; ++i) {
      fmt::format_to(std::back_inserter(text), " {}", *dense++);
    }
    for (std::size_t t = 0; t < samples.ids.size(); ++t) {
      text += " |";
      for (std::int64_t i = 0; i < samples.ids[t].lengths[s]; ++i) {
        fmt::format_to(std::back_inserter(text), " {}", *next[t]++);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace pipesim::exec
