// Windows has no fork(): nothing is to be done around it.
#pragma once

inline int pthread_atfork(void (*)(), void (*)(), void (*)()) { return 0; }
