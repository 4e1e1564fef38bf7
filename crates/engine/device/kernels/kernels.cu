// All kernels, for devices.
#include "list.h"
