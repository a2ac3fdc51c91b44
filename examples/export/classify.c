/* Names the clothes in a picture of 28 x 28 grey pixels (PGM), with the network inside the package as a C library:
 *
 *     cenote export src/cenote/data/fashion.onnx -o out --name fashion --target x86-64
 *     cc -O2 -I out examples/export/classify.c out/libfashion.a -o classify
 *     ./classify shoe.pgm
 */
#include <stdio.h>
#include <stdlib.h>

#include "fashion.h"

#define PIXELS FASHION_INPUT0_ELEMENTS
#define CLASSES FASHION_OUTPUT0_ELEMENTS

static const char *const names[CLASSES] = {"T-shirt/top", "Trouser", "Pullover", "Dress",      "Coat",
                                           "Sandal",      "Shirt",   "Sneaker",  "Bag", "Ankle boot"};

/* Read a binary PGM of 28 x 28 pixels as numbers from 0 to 1. */
static int read_picture(const char *path, float *picture) {
    unsigned char bytes[PIXELS];
    int width, height, white;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    int is_read = fscanf(file, "P5 %d %d %d", &width, &height, &white) == 3 && fgetc(file) != EOF &&
                  width == 28 && height == 28 && white == 255 && fread(bytes, 1, PIXELS, file) == PIXELS;
    fclose(file);
    for (int i = 0; is_read && i < PIXELS; i++) picture[i] = (float)bytes[i] / 255;
    return is_read;
}

int main(int count, char **arguments) {
    static float picture[PIXELS], scores[CLASSES];
    if (count != 2 || !read_picture(arguments[1], picture)) {
        fprintf(stderr, "usage: classify PICTURE.pgm (28 x 28 pixels, 255 is white)\n");
        return 2;
    }
    void *workspace = malloc(fashion_workspace());
    int status = workspace ? fashion_run(picture, scores, workspace) : FASHION_NULL_POINTER;
    free(workspace);
    if (status != FASHION_OK) {
        fprintf(stderr, "the network returned %d\n", status);
        return 1;
    }
    int best = 0;
    for (int i = 1; i < CLASSES; i++) best = scores[i] > scores[best] ? i : best;
    printf("%s\n", names[best]);
    return 0;
}
