// How a program begins on a glibc before 2.34, whose __libc_start_main does not run the constructors of the program by itself: it
// calls a function that each program brought with it, and that programs have not had since. Newer ones call it too where it is there.

extern "C" {
using Start = int(int (*)(int, char **, char **), int, char **, void (*)(int, char **, char **), void (*)(), void (*)(), void *);

#if defined(__x86_64__)
__asm__(".symver OlderStart, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver OlderStart, __libc_start_main@GLIBC_2.17");
#endif
Start OlderStart;
Start __libc_start_main;

void _init();
extern void (*__init_array_start[])(int, char **, char **) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char **, char **) __attribute__((visibility("hidden")));

static void RunConstructors(int count, char **arguments, char **environment) {
	_init();
	for (auto constructor = __init_array_start; constructor != __init_array_end; constructor++) {
		(*constructor)(count, arguments, environment);
	}
}

int __libc_start_main(int (*program)(int, char **, char **), int count, char **arguments, void (*init)(int, char **, char **),
                      void (*fini)(), void (*loader_fini)(), void *stack_end) {
	return OlderStart(program, count, arguments, init ? init : RunConstructors, fini, loader_fini, stack_end);
}
}
