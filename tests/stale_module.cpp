// A GPU module of another build: it knows no interface that it is asked for.
extern "C" const void* pipesim_gpu_module(const char* interface) {
  static_cast<void>(interface);
  return nullptr;
}
