#include "sparse.h"
