// A folder of checkpoints after a crash at any instant: processes that are killed, and power cuts
// that lose what was not synced.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/hash.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/quick_disk.h"

namespace pipesim {
namespace {

using exec::CheckpointFile;
using exec::CheckpointFolder;
using exec::Disk;
using exec::DiskFile;
using exec::FoundCheckpoint;
using exec::Manifest;

namespace fs = std::filesystem;

// A step of what was done to a disk. Paths are below the folder's parent.
struct Step {
  enum What { make_folder, create, write, sync, sync_folder, rename, remove_file, remove_folder };
  What what;
  std::string path;
  std::string more;  // bytes, or the new name
};

// Does it, and remembers.
class RecordingDisk final : public Disk {
 public:
  explicit RecordingDisk(std::string root) : root_(std::move(root)) {}
  const std::vector<Step>& steps() const { return steps_; }

  void make_folder(const std::string& path) override {
    note(Step::make_folder, path);
    machine().make_folder(path);
  }
  std::unique_ptr<DiskFile> create(const std::string& path) override {
    note(Step::create, path);
    return std::make_unique<File>(*this, path, machine().create(path));
  }
  void sync_folder(const std::string& path) override {
    note(Step::sync_folder, path);
    machine().sync_folder(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    note(Step::rename, from, below(to));
    machine().rename(from, to);
  }
  void remove_file(const std::string& path) override {
    note(Step::remove_file, path);
    machine().remove_file(path);
  }
  void remove_folder(const std::string& path) override {
    note(Step::remove_folder, path);
    machine().remove_folder(path);
  }

 private:
  class File final : public DiskFile {
   public:
    File(RecordingDisk& disk, std::string path, std::unique_ptr<DiskFile> file)
        : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      disk_.note(Step::write, path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      file_->write(bytes);
    }
    void sync() override {
      disk_.note(Step::sync, path_);
      file_->sync();
    }

   private:
    RecordingDisk& disk_;
    std::string path_;
    std::unique_ptr<DiskFile> file_;
  };

  // Names and bytes are what matters here.
  Disk& machine() { return quick_; }
  std::string below(const std::string& path) const {
    return path == root_ ? "" : path.substr(root_.size() + 1);
  }
  void note(Step::What what, const std::string& path, std::string more = {}) {
    steps_.push_back({what, below(path), std::move(more)});
  }

  std::string root_;
  testing::QuickDisk quick_;
  std::vector<Step> steps_;
};

// What a disk holds after some steps, and what of that a power cut leaves.
class Platter {
 public:
  Platter() { folders_[""] = {}; }

  void apply(const Step& step) {
    switch (step.what) {
      case Step::make_folder:
        if (!folders_.contains(step.path)) {
          folders_[step.path] = {};
          change(step.path, Change::add_folder);
        }
        break;
      case Step::create:
        names_[step.path] = nodes_.size();
        nodes_.emplace_back();
        change(step.path, Change::add_file, nodes_.size() - 1);
        break;
      case Step::write: nodes_[names_.at(step.path)].bytes += step.more; break;
      case Step::sync: {
        Node& node = nodes_[names_.at(step.path)];
        node.safe = node.bytes.size();
        break;
      }
      case Step::sync_folder:
        for (const Change& change : folders_.at(step.path).pending) perform(safe_, change);
        folders_.at(step.path).pending.clear();
        break;
      case Step::rename: rename(step.path, step.more); break;
      case Step::remove_file:
        names_.erase(step.path);
        change(step.path, Change::remove);
        break;
      case Step::remove_folder:
        folders_.erase(step.path);
        change(step.path, Change::remove);
        break;
    }
  }

  // All that was done, as after a kill.
  void put_all(const fs::path& root) const {
    for (const auto& [folder, unused] : folders_) fs::create_directories(root / folder);
    for (const auto& [path, node] : names_) put(root / path, nodes_[node].bytes);
  }

  // What was synced, and of the rest whatever chance leaves.
  void put_cut(const fs::path& root, std::mt19937& random) const {
    const auto chance = [&] { return std::uniform_int_distribution(0, 1)(random) == 1; };
    Tree tree = safe_;
    for (const auto& [folder, own] : folders_) {
      for (const Change& one : own.pending) {
        if (chance()) perform(tree, one);
      }
    }
    fs::create_directories(root);
    for (const std::string& folder : tree.folders) {
      if (is_reached(tree, folder)) fs::create_directories(root / folder);
    }
    for (const auto& [path, index] : tree.files) {
      if (!is_reached(tree, parent_of(path))) continue;
      const Node& node = nodes_[index];
      std::string bytes = node.bytes;
      bytes.resize(std::uniform_int_distribution(node.safe, bytes.size())(random));
      // Blocks that were never written read as zeros.
      if (bytes.size() > node.safe && chance()) {
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(node.safe), bytes.end(), '\0');
      }
      put(root / path, bytes);
    }
  }

 private:
  struct Node {
    std::string bytes;
    std::size_t safe = 0;
  };
  struct Change {
    enum What { add_folder, add_file, remove, rename };
    What what;
    std::string path;
    std::string to;
    std::size_t node;
  };
  struct Folder {
    std::vector<Change> pending;
  };
  // By path.
  struct Tree {
    std::vector<std::string> folders;
    std::map<std::string, std::size_t> files;
  };

  static std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }
  static bool has_folder(const Tree& tree, const std::string& path) {
    return path.empty() || std::ranges::count(tree.folders, path) > 0;
  }
  static bool is_reached(const Tree& tree, const std::string& path) {
    return path.empty() || (has_folder(tree, path) && is_reached(tree, parent_of(path)));
  }
  void change(const std::string& path, Change::What what, std::size_t node = 0) {
    folders_.at(parent_of(path)).pending.push_back({what, path, {}, node});
  }
  static void move_below(Tree& tree, const std::string& from, const std::string& to) {
    const std::string prefix = from + "/";
    std::map<std::string, std::size_t> files;
    for (const auto& [path, node] : tree.files) {
      const bool moves = path == from || path.starts_with(prefix);
      if (!moves && (path == to || path.starts_with(to + "/"))) continue;
      files[moves ? to + path.substr(from.size()) : path] = node;
    }
    tree.files = std::move(files);
    for (std::string& folder : tree.folders) {
      if (folder == from || folder.starts_with(prefix)) folder = to + folder.substr(from.size());
    }
  }
  static void perform(Tree& tree, const Change& change) {
    switch (change.what) {
      case Change::add_folder:
        if (!has_folder(tree, change.path)) tree.folders.push_back(change.path);
        break;
      case Change::add_file: tree.files[change.path] = change.node; break;
      case Change::remove:
        tree.files.erase(change.path);
        std::erase(tree.folders, change.path);
        break;
      case Change::rename:
        if (has_folder(tree, change.path) || tree.files.contains(change.path)) {
          move_below(tree, change.path, change.to);
        }
        break;
    }
  }
  void rename(const std::string& from, const std::string& to) {
    Tree tree{{}, names_};
    move_below(tree, from, to);
    names_ = tree.files;
    if (auto folder = folders_.extract(from)) {
      // What is pending in it is about paths that have moved.
      for (Change& one : folder.mapped().pending) one.path = to + one.path.substr(from.size());
      folder.key() = to;
      folders_.insert(std::move(folder));
    }
    folders_.at(parent_of(from)).pending.push_back({Change::rename, from, to, 0});
  }
  static void put(const fs::path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary);
    file << bytes;
  }

  std::vector<Node> nodes_;
  std::map<std::string, std::size_t> names_;
  std::map<std::string, Folder> folders_;
  Tree safe_;
};

constexpr int ranks = 2;

std::string content_of(std::int64_t iteration, int rank) {
  return "numbers of rank " + std::to_string(rank) + " after " + std::to_string(iteration);
}

// As a training saves.
void save(Disk& disk, CheckpointFolder& folder, std::int64_t iteration) {
  Manifest manifest{iteration, "{}", {}};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = folder.open(iteration);
    const std::string name = CheckpointFolder::file_of(rank);
    const std::string content = content_of(iteration, rank);
    const auto file = disk.create(path + "/" + name);
    file->write(std::as_bytes(std::span(content)).first(10));
    file->write(std::as_bytes(std::span(content)).subspan(10));
    file->sync();
    manifest.files.push_back(
        {name, static_cast<std::int64_t>(content.size()), exec::hash_of(content)});
  }
  folder.publish(manifest);
}

// The iteration of the newest complete one, whose files must be its own; -1 if there is none.
std::int64_t newest_whole(const std::string& folder) {
  for (const FoundCheckpoint& one : exec::find_checkpoints(folder).by_age) {
    const bool is_whole = std::ranges::none_of(one.manifest.files, [&](const CheckpointFile& file) {
      return exec::find_damage(one.path, file).has_value();
    });
    if (!is_whole) continue;
    EXPECT_EQ(one.manifest.files.size(), static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(read_file(one.path + "/" + CheckpointFolder::file_of(rank)),
                content_of(one.manifest.iteration, rank));
    }
    return one.manifest.iteration;
  }
  return -1;
}

int named_in(const std::string& folder) {
  return static_cast<int>(std::ranges::count_if(
      exec::names_in(folder),
      [](const std::string& name) { return name.starts_with("iteration-"); }));
}

struct History {
  std::vector<Step> steps;
  std::vector<std::pair<std::size_t, std::int64_t>> published;  // at a step, this iteration was

  std::int64_t newest_before(std::size_t step) const {
    std::int64_t newest = -1;
    for (const auto& [at, iteration] : published) {
      if (at <= step) newest = iteration;
    }
    return newest;
  }
};

History record(int keep) {
  const testing::TemporaryFolder root(testing::memory_folder());
  RecordingDisk disk(root.path().string());
  CheckpointFolder folder(disk, root / "ck", keep);
  History history;
  folder.prepare();
  for (const int iteration : {10, 20, 30, 40, 50}) {
    save(disk, folder, iteration);
    history.published.emplace_back(disk.steps().size(), iteration);
  }
  history.steps = disk.steps();
  return history;
}

// What is found after a crash, and once a training has prepared the folder anew and saved again.
void expect_whole(const fs::path& root, std::int64_t least, int keep, const std::string& where) {
  const std::string folder = (root / "ck").string();
  const std::int64_t newest = newest_whole(folder);
  EXPECT_GE(newest, least) << where;
  EXPECT_LE(named_in(folder), keep) << where;
  testing::QuickDisk disk;
  CheckpointFolder again(disk, folder, keep);
  again.prepare();
  EXPECT_EQ(newest_whole(folder), newest) << where;
  EXPECT_LE(named_in(folder), keep) << where;
  for (const std::string& name : exec::names_in(folder)) EXPECT_NE(name.front(), '.') << name;
  save(disk, again, newest + 5);
  EXPECT_EQ(newest_whole(folder), newest + 5) << where;
  EXPECT_LE(named_in(folder), keep) << where;
  EXPECT_EQ(read_file(folder + "/latest"),
            exec::names_in(folder)[static_cast<std::size_t>(named_in(folder) - 1)] + "\n");
}

TEST(CheckpointFolderFaults, EveryPrefixOfTheWritesLeavesAWholeOne) {
  for (int keep = 1; keep <= 3; ++keep) {
    const History history = record(keep);
    Platter platter;
    std::mt19937 random(static_cast<unsigned>(keep));
    for (std::size_t step = 0; step <= history.steps.size(); ++step) {
      if (step > 0) platter.apply(history.steps[step - 1]);
      const std::string where =
          "keeping " + std::to_string(keep) + ", after step " + std::to_string(step);
      const std::int64_t least = history.newest_before(step);
      {
        const testing::TemporaryFolder root(testing::memory_folder());
        platter.put_all(root.path());
        // What is half removed is not damaged.
        EXPECT_EQ(exec::find_checkpoints(root / "ck").damaged, std::vector<std::string>()) << where;
        expect_whole(root.path(), least, keep, where + ", killed");
      }
      for (int cut = 0; cut < 6; ++cut) {
        const testing::TemporaryFolder root(testing::memory_folder());
        platter.put_cut(root.path(), random);
        expect_whole(root.path(), least, keep, where + ", cut " + std::to_string(cut));
      }
    }
    EXPECT_GT(history.steps.size(), 100U);
  }
}

// What the platter holds is what the machine's disk does.
TEST(CheckpointFolderFaults, TheWholeHistoryIsWhatTheMachineHas) {
  const testing::TemporaryFolder root(testing::memory_folder());
  RecordingDisk disk(root / "machine");
  fs::create_directories(root / "machine");
  CheckpointFolder folder(disk, root / "machine/ck", 2);
  folder.prepare();
  for (const int iteration : {10, 20, 30}) save(disk, folder, iteration);
  Platter platter;
  for (const Step& step : disk.steps()) platter.apply(step);
  platter.put_all(root / "platter");
  const auto listing = [&](const std::string& below) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(below)) {
      const std::string name = fs::relative(entry.path(), below).string();
      files[name] = entry.is_directory() ? "/" : read_file(entry.path().string());
    }
    return files;
  };
  EXPECT_EQ(listing(root / "machine"), listing(root / "platter"));
}

TEST(CheckpointFolder, EveryFlippedBitIsFound) {
  const testing::TemporaryFolder root(testing::memory_folder());
  testing::QuickDisk disk;
  CheckpointFolder folder(disk, root / "ck", 2);
  folder.prepare();
  save(disk, folder, 10);
  save(disk, folder, 20);
  const std::string newest = root / "ck/iteration-00000020";
  for (const std::string& name : exec::names_in(newest)) {
    const std::string path = newest + "/" + name;
    const std::string content = read_file(path);
    for (std::size_t i = 0; i < content.size(); ++i) {
      std::string altered = content;
      altered[i] = static_cast<char>(altered[i] ^ (1 << (i % 8)));
      write_file(path, altered);
      ASSERT_EQ(newest_whole(root / "ck"), 10) << name << " " << i;
    }
    write_file(path, content);
    ASSERT_EQ(newest_whole(root / "ck"), 20);
  }
}

// A training that went back to 10 leaves what came after it behind.
TEST(CheckpointFolder, LaterOnesGoWithTheNextSave) {
  const testing::TemporaryFolder root(testing::memory_folder());
  testing::QuickDisk disk;
  CheckpointFolder folder(disk, root / "ck", 3);
  folder.prepare();
  for (const int iteration : {10, 20, 30}) save(disk, folder, iteration);
  save(disk, folder, 20);
  EXPECT_EQ(exec::names_in(root / "ck"),
            (std::vector<std::string>{"iteration-00000010", "iteration-00000020", "latest"}));
  EXPECT_EQ(newest_whole(root / "ck"), 20);
}

TEST(CheckpointFolder, WhatIsNoCheckpointIsTold) {
  const testing::TemporaryFolder root(testing::memory_folder());
  EXPECT_TRUE(exec::find_checkpoints(root / "nothing").by_age.empty());
  write_file(root / "file", "x");
  EXPECT_NE(testing::input_error_of([&] { exec::find_checkpoints(root / "file"); }),
            testing::no_error);
  fs::create_directories(root / "ck/iteration-00000010");
  fs::create_directories(root / "ck/iteration-10");
  fs::create_directories(root / "ck/.incoming-00000020");
  const exec::FoundCheckpoints found = exec::find_checkpoints(root / "ck");
  EXPECT_TRUE(found.by_age.empty());
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_NE(found.damaged[0].find("iteration-00000010/manifest.json: is not there"),
            std::string::npos);
}

}  // namespace
}  // namespace pipesim
