// Names for a thread's GPU work, shown by profilers.
#pragma once

#if defined(PIPESIM_HAS_NVTX)

#include <nvtx3/nvToolsExt.h>

namespace pipesim::exec {
inline void start_profiler_range(const char* name) { nvtxRangePushA(name); }
inline void end_profiler_range() { nvtxRangePop(); }
}  // namespace pipesim::exec

#elif defined(PIPESIM_HAS_ROCTX)

#include <roctracer/roctx.h>

namespace pipesim::exec {
inline void start_profiler_range(const char* name) { roctxRangePushA(name); }
inline void end_profiler_range() { roctxRangePop(); }
}  // namespace pipesim::exec

#else

namespace pipesim::exec {
inline void start_profiler_range(const char* /*name*/) {}
inline void end_profiler_range() {}
}  // namespace pipesim::exec

#endif
