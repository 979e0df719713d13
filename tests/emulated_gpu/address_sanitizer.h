// Whether the address sanitizer watches: PIPESIM_ADDRESS_SANITIZER, and its headers.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define PIPESIM_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PIPESIM_ADDRESS_SANITIZER
#endif
#endif

#ifdef PIPESIM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
