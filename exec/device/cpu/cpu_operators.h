// What the CPU's operators share, whatever instruction set they are compiled for.
//
// cpu_operators.cpp is compiled once for each instruction set. Of an inline
// function or a template that several of those copies emit, the linker keeps
// any one, for all callers: one that this machine may not be able to run. So
// those files emit nothing but internal symbols, and what needs the standard
// library lives behind this class, in cpu_device.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "exec/device/device.h"

namespace pipesim::exec {

// Memory and the description; owns the scratch memory of the operators.
class CpuBase : public Device {
 public:
  CpuBase(const char* instructions, bool own_products);
  CpuBase(const CpuBase&) = delete;
  CpuBase& operator=(const CpuBase&) = delete;
  ~CpuBase() override;

  std::string description() const final;
  void* allocate(std::int64_t bytes) final;
  void release(void* memory) final;
  void upload(void* to, const void* from_host, std::int64_t bytes) final;
  void download(void* to_host, const void* from, std::int64_t bytes) final;
  bool host_reaches_memory() const final { return true; }
  void finish() final;

 protected:
  // Room for so many floats, until the next call; what was in it is lost.
  float* scratch(std::int64_t floats);

 private:
  std::string description_;
  float* scratch_ = nullptr;
  std::int64_t scratch_floats_ = 0;
};

Device* make_cpu_operators_v4(bool own_products);
Device* make_cpu_operators_v3(bool own_products);
Device* make_cpu_operators_baseline(bool own_products);

}  // namespace pipesim::exec
