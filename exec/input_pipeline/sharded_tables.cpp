#include "exec/input_pipeline/sharded_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/device/random.h"
#include "traces/base/error.h"
#include "traces/base/prefetch.h"

namespace pipesim::exec {
namespace {

constexpr std::uint32_t table_site = 0;  // of random numbers; the dense part has others

template <typename T>
void append_values(Bytes& bytes, const T* values, std::int64_t count) {
  const auto* from = reinterpret_cast<const std::byte*>(values);
  bytes.insert(bytes.end(), from, from + count * static_cast<std::int64_t>(sizeof(T)));
}

// Reads consecutive values from bytes, and checks that nothing is left.
class Unpacking {
 public:
  Unpacking(const Bytes& bytes, int from_rank) : bytes_(bytes), from_rank_(from_rank) {}

  template <typename T>
  void take(T* to, std::int64_t count) {
    const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
    if (count < 0 || size > bytes_.size() - place_) fail();
    if (size > 0) std::memcpy(to, bytes_.data() + place_, size);
    place_ += size;
  }
  template <typename T>
  void take_behind(std::vector<T>& values, std::int64_t count) {
    const std::size_t size = values.size();
    if (count < 0 || static_cast<std::size_t>(count) > bytes_.size()) fail();
    values.resize(size + static_cast<std::size_t>(count));
    take(values.data() + size, count);
  }
  void end() const {
    if (place_ != bytes_.size()) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw work_error(
        fmt::format("rank {} sent {} bytes, which are not what was agreed; do all ranks run the "
                    "same program with the same flags?",
                    from_rank_, bytes_.size()));
  }

  const Bytes& bytes_;
  int from_rank_;
  std::size_t place_ = 0;
};

// Calls do_row(row, sample) for each id, in order.
template <typename DoRow>
void for_each_id(const IdLists& lists, const DoRow& do_row) {
  const std::int64_t* id = lists.values.data();
  for (std::size_t s = 0; s < lists.lengths.size(); ++s) {
    for (std::int64_t i = 0; i < lists.lengths[s]; ++i) do_row(*id++, static_cast<std::int64_t>(s));
  }
}

// A table's ids whose rows are in a part.
IdLists ids_within(const IdLists& lists, const TablePiece& piece, std::int64_t rows) {
  if (piece.row_begin == 0 && piece.row_end == rows) return lists;
  IdLists within;
  within.lengths.resize(lists.lengths.size());
  for_each_id(lists, [&](std::int64_t row, std::int64_t sample) {
    if (row < piece.row_begin || row >= piece.row_end) return;
    within.values.push_back(row);
    ++within.lengths[static_cast<std::size_t>(sample)];
  });
  return within;
}

// Adds the rows of a sample's ids to its pooled row; consecutive pooled rows are `stride` numbers
// apart.
void add_rows(const ShardedTables::Part& part, const IdLists& lists, float* pooled,
              std::int64_t stride) {
  const std::int64_t columns = part.columns();
  for_each_id(lists, [&](std::int64_t row, std::int64_t sample) {
    const float* from = part.weights.data() + (row - part.piece.row_begin) * columns;
    float* to = pooled + sample * stride;
    for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
  });
}

std::int64_t hint_rows(const ShardedTables::Part& part, const IdLists& lists) {
  constexpr std::int64_t line = 16;  // numbers per cache line
  std::vector<std::int64_t> rows = lists.values;
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::int64_t columns = part.columns();
  for (const std::int64_t row : rows) {
    const std::int64_t begin = (row - part.piece.row_begin) * columns;
    for (std::int64_t c = 0; c < columns; c += line) {
      prefetch_ahead(part.weights.data(), static_cast<std::size_t>(begin + c));
    }
  }
  return static_cast<std::int64_t>(rows.size());
}

std::int64_t bytes_in_arrays(const std::vector<std::vector<float>>& arrays) {
  std::size_t numbers = 0;
  for (const std::vector<float>& array : arrays) numbers += array.size();
  return static_cast<std::int64_t>(numbers * sizeof(float));
}

}  // namespace

void fill_initial_row(std::uint64_t seed, int table, const EmbeddingTable& spec, std::int64_t row,
                      std::int64_t begin, std::int64_t end, float* to) {
  const RandomKey key = {.seed = seed,
                         .purpose = Purpose::initial_weights,
                         .site = table_site,
                         .layer = static_cast<std::uint32_t>(table)};
  const float bound = 1 / std::sqrt(static_cast<float>(spec.rows));
  RandomWords words = {};
  std::int64_t block = -1;
  for (std::int64_t c = begin; c < end; ++c) {
    const std::int64_t element = row * spec.width + c;
    if (element / 4 != block) {
      block = element / 4;
      words = random_words(key, static_cast<std::uint64_t>(block));
    }
    // A float has 24 bits of precision.
    const auto drawn = static_cast<float>(words.word[element % 4] >> 8);
    *to++ = (drawn * 0x1p-23F - 1) * bound;
  }
}

std::int64_t TableBatch::bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(pooled.size() * sizeof(float)) +
                       bytes_in_arrays(partial) + bytes_in_arrays(gradients);
  for (const IdLists& lists : received) bytes += lists.bytes();
  for (const auto& of_rank : to_send) {
    for (const IdLists& lists : of_rank) bytes += lists.bytes();
  }
  for (const auto& of_rank : copy_gradients) {
    for (const RowGradients& rows : of_rank) {
      bytes += static_cast<std::int64_t>(rows.rows.size() * sizeof(std::int64_t) +
                                         rows.numbers.size() * sizeof(float));
    }
  }
  return bytes;
}

ShardedTables::ShardedTables(const RecommendationTraining& training, int rank)
    : training_(training), exchanged_of_(static_cast<std::size_t>(training.ranks)) {
  check_executable(training);
  for (const TablePiece& piece :
       pieces_of(training.plan, training.model, training.ranks, training.ranks)) {
    const TableSharding& sharding = training.plan.tables[static_cast<std::size_t>(piece.table)];
    const bool is_copy = sharding.sharding == ShardingType::data_parallel;
    if (!is_copy) exchanged_of_[static_cast<std::size_t>(piece.rank)].push_back(piece);
    if (piece.rank == rank) (is_copy ? copies_ : exchanged_).push_back(make_part(piece));
  }
}

ShardedTables::Part ShardedTables::make_part(const TablePiece& piece) const {
  const EmbeddingTable& table = training_.model.tables[static_cast<std::size_t>(piece.table)];
  Part part;
  part.piece = piece;
  part.weights.resize(static_cast<std::size_t>(piece.numbers()));
  float* to = part.weights.data();
  for (std::int64_t row = piece.row_begin; row < piece.row_end; ++row, to += part.columns()) {
    fill_initial_row(training_.seed, piece.table, table, row, piece.column_begin, piece.column_end,
                     to);
  }
  if (training_.has_states()) {
    part.state.resize(static_cast<std::size_t>(piece.row_end - piece.row_begin));
  }
  return part;
}

void ShardedTables::exchange_splits(const InputBatch& batch, TableBatch& work,
                                    InputExchange& exchange) const {
  std::vector<Bytes> given(exchanged_of_.size());
  work.to_send.resize(exchanged_of_.size());
  for (std::size_t r = 0; r < exchanged_of_.size(); ++r) {
    for (const TablePiece& piece : exchanged_of_[r]) {
      const auto t = static_cast<std::size_t>(piece.table);
      work.to_send[r].push_back(ids_within(batch.ids[t], piece, training_.model.tables[t].rows));
      const auto count = static_cast<std::int64_t>(work.to_send[r].back().values.size());
      append_values(given[r], &count, 1);
    }
  }
  for (const Bytes& bytes : exchange.all_to_all(std::move(given))) {
    work.announced.push_back(values_of<std::int64_t>(bytes));
  }
}

void ShardedTables::read_splits(TableBatch& work) { work.expected = std::move(work.announced); }

void ShardedTables::exchange_ids(TableBatch& work, InputExchange& exchange) const {
  std::vector<Bytes> given_lengths(work.to_send.size());
  std::vector<Bytes> given_values(work.to_send.size());
  for (std::size_t r = 0; r < work.to_send.size(); ++r) {
    for (const IdLists& lists : work.to_send[r]) {
      append_values(given_lengths[r], lists.lengths.data(), batch_size());
      append_values(given_values[r], lists.values.data(),
                    static_cast<std::int64_t>(lists.values.size()));
    }
  }
  work.to_send.clear();
  const std::vector<Bytes> lengths = exchange.all_to_all(std::move(given_lengths));
  const std::vector<Bytes> values = exchange.all_to_all(std::move(given_values));
  work.received.resize(exchanged_.size());
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    Unpacking all_lengths(lengths[r], static_cast<int>(r));
    Unpacking all_values(values[r], static_cast<int>(r));
    for (std::size_t p = 0; p < exchanged_.size(); ++p) {
      all_lengths.take_behind(work.received[p].lengths, batch_size());
      all_values.take_behind(work.received[p].values, work.expected[r][p]);
    }
    all_lengths.end();
    all_values.end();
  }
}

std::int64_t ShardedTables::prefetch(const InputBatch& batch, const TableBatch& work) const {
  std::int64_t rows = 0;
  for (std::size_t p = 0; p < exchanged_.size(); ++p) {
    rows += hint_rows(exchanged_[p], work.received[p]);
  }
  for (const Part& copy : copies_) {
    rows += hint_rows(copy, batch.ids[static_cast<std::size_t>(copy.piece.table)]);
  }
  return rows;
}

void ShardedTables::look_up(const InputBatch& batch, TableBatch& work) const {
  work.partial.resize(exchanged_.size());
  for (std::size_t p = 0; p < exchanged_.size(); ++p) {
    const std::int64_t columns = exchanged_[p].columns();
    work.partial[p].assign(static_cast<std::size_t>(training_.ranks * batch_size() * columns), 0);
    add_rows(exchanged_[p], work.received[p], work.partial[p].data(), columns);
  }
  work.pooled.assign(static_cast<std::size_t>(batch_size() * tables() * width()), 0);
  for (const Part& copy : copies_) {
    add_rows(copy, batch.ids[static_cast<std::size_t>(copy.piece.table)],
             work.pooled.data() + copy.piece.table * width(), tables() * width());
  }
}

void ShardedTables::exchange_pooled(TableBatch& work, InputExchange& exchange) const {
  std::vector<Bytes> given(exchanged_of_.size());
  for (std::size_t r = 0; r < given.size(); ++r) {
    for (std::size_t p = 0; p < exchanged_.size(); ++p) {
      const std::int64_t numbers = batch_size() * exchanged_[p].columns();
      append_values(given[r], work.partial[p].data() + static_cast<std::int64_t>(r) * numbers,
                    numbers);
    }
  }
  work.partial.clear();
  const std::vector<Bytes> got = exchange.all_to_all(std::move(given));
  std::vector<float> rows;
  for (std::size_t r = 0; r < got.size(); ++r) {
    Unpacking all(got[r], static_cast<int>(r));
    for (const TablePiece& piece : exchanged_of_[r]) {
      const std::int64_t columns = piece.column_end - piece.column_begin;
      rows.resize(static_cast<std::size_t>(batch_size() * columns));
      all.take(rows.data(), batch_size() * columns);
      // Columns without contributions of other ranks are added to zeros, too: that changes no bit,
      // since sums that begin with 0 are never -0.
      const float* from = rows.data();
      float* to = work.pooled.data() + piece.table * width() + piece.column_begin;
      for (std::int64_t s = 0; s < batch_size(); ++s, from += columns, to += tables() * width()) {
        for (std::int64_t c = 0; c < columns; ++c) to[c] += from[c];
      }
    }
    all.end();
  }
}

struct ShardedTables::Term {
  std::int64_t row = 0;
  std::int64_t place = 0;           // index in the order of the sum
  const float* gradient = nullptr;  // of a pooled row, or a sum of such
};

RowGradients ShardedTables::sum_by_row(std::vector<Term> terms, std::int64_t columns) const {
  std::ranges::sort(terms, [](const Term& one, const Term& other) {
    return one.row != other.row ? one.row < other.row : one.place < other.place;
  });
  RowGradients sums;
  const auto width = static_cast<std::size_t>(columns);
  for (const Term& term : terms) {
    if (sums.rows.empty() || sums.rows.back() != term.row) {
      sums.rows.push_back(term.row);
      sums.numbers.resize(sums.numbers.size() + width);
    }
    float* to = sums.numbers.data() + sums.numbers.size() - width;
    for (std::size_t c = 0; c < width; ++c) to[c] += term.gradient[c];
  }
  return sums;
}

void ShardedTables::exchange_gradients(const InputBatch& batch, const std::vector<float>& by_pooled,
                                       TableBatch& work, InputExchange& exchange) const {
  // Sent to all ranks: rows of copies that this rank's samples have touched.
  Bytes of_copies;
  for (const Part& copy : copies_) {
    const float* from = by_pooled.data() + copy.piece.table * width();
    std::vector<Term> terms;
    for_each_id(batch.ids[static_cast<std::size_t>(copy.piece.table)],
                [&](std::int64_t row, std::int64_t sample) {
                  terms.push_back({row, static_cast<std::int64_t>(terms.size()),
                                   from + sample * tables() * width()});
                });
    const RowGradients sums = sum_by_row(std::move(terms), width());
    const auto count = static_cast<std::int64_t>(sums.rows.size());
    append_values(of_copies, &count, 1);
    append_values(of_copies, sums.rows.data(), count);
    append_values(of_copies, sums.numbers.data(), count * width());
  }
  std::vector<Bytes> given(exchanged_of_.size());
  for (std::size_t r = 0; r < given.size(); ++r) {
    for (const TablePiece& piece : exchanged_of_[r]) {
      const float* from = by_pooled.data() + piece.table * width() + piece.column_begin;
      for (std::int64_t s = 0; s < batch_size(); ++s, from += tables() * width()) {
        append_values(given[r], from, piece.column_end - piece.column_begin);
      }
    }
    given[r].insert(given[r].end(), of_copies.begin(), of_copies.end());
  }

  const std::vector<Bytes> got = exchange.all_to_all(std::move(given));
  work.gradients.resize(exchanged_.size());
  work.copy_gradients.resize(got.size());
  for (std::size_t r = 0; r < got.size(); ++r) {
    Unpacking all(got[r], static_cast<int>(r));
    for (std::size_t p = 0; p < exchanged_.size(); ++p) {
      all.take_behind(work.gradients[p], batch_size() * exchanged_[p].columns());
    }
    work.copy_gradients[r].resize(copies_.size());
    for (RowGradients& sums : work.copy_gradients[r]) {
      std::int64_t count = 0;
      all.take(&count, 1);
      all.take_behind(sums.rows, count);
      all.take_behind(sums.numbers, count * width());
    }
    all.end();
  }
}

void ShardedTables::update(const TableBatch& work) {
  for (std::size_t p = 0; p < exchanged_.size(); ++p) {
    const std::int64_t columns = exchanged_[p].columns();
    std::vector<Term> terms;
    for_each_id(work.received[p], [&](std::int64_t row, std::int64_t sample) {
      terms.push_back({row, static_cast<std::int64_t>(terms.size()),
                       work.gradients[p].data() + sample * columns});
    });
    step(exchanged_[p], sum_by_row(std::move(terms), columns));
  }
  for (std::size_t p = 0; p < copies_.size(); ++p) {
    std::vector<Term> terms;
    for (const auto& of_rank : work.copy_gradients) {
      const float* gradient = of_rank[p].numbers.data();
      for (const std::int64_t row : of_rank[p].rows) {
        terms.push_back({row, static_cast<std::int64_t>(terms.size()), gradient});
        gradient += width();
      }
    }
    step(copies_[p], sum_by_row(std::move(terms), width()));
  }
}

void ShardedTables::step(Part& part, const RowGradients& gradients) const {
  const std::int64_t columns = part.columns();
  const float* gradient = gradients.numbers.data();
  for (std::size_t i = 0; i < gradients.rows.size(); ++i, gradient += columns) {
    const std::int64_t row = gradients.rows[i] - part.piece.row_begin;
    float rate = training_.table_learning_rate;
    if (training_.has_states()) {
      float squares = 0;
      for (std::int64_t c = 0; c < columns; ++c) squares += gradient[c] * gradient[c];
      float& state = part.state[static_cast<std::size_t>(row)];
      state += squares / static_cast<float>(columns);
      rate /= std::sqrt(state) + training_.epsilon;
    }
    float* weights = part.weights.data() + row * columns;
    for (std::int64_t c = 0; c < columns; ++c) weights[c] -= rate * gradient[c];
  }
}

std::int64_t ShardedTables::bytes() const {
  std::int64_t numbers = 0;
  for (const auto* parts : {&exchanged_, &copies_}) {
    for (const Part& part : *parts) numbers += part.piece.numbers();
  }
  return 4 * numbers;
}

std::int64_t ShardedTables::state_bytes() const {
  std::size_t numbers = 0;
  for (const auto* parts : {&exchanged_, &copies_}) {
    for (const Part& part : *parts) numbers += part.state.size();
  }
  return static_cast<std::int64_t>(4 * numbers);
}

}  // namespace pipesim::exec
