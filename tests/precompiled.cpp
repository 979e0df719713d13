// Nothing: precompiled.h is compiled with it.
