/* SPDX-License-Identifier: MIT */
/* Bodies that attract each other, by a tree of cells that is built anew for each step and then freed. */
#include "own.h"

#include <math.h>

enum { BODIES = 12000 };

struct body {
    double at[3], speed[3], force[3], mass;
};

/* A cell has one body, or eight cells in it. */
struct cell {
    double centre[3], half, mass, heart[3];
    struct body *body;
    struct cell *child[8];
};

static struct cell *cell_make(const double *centre, double half)
{
    struct cell *cell = own_alloc(sizeof(*cell));

    memset(cell, 0, sizeof(*cell));
    memcpy(cell->centre, centre, sizeof(cell->centre));
    cell->half = half;
    return cell;
}

static void cell_insert(struct cell *cell, struct body *body, unsigned depth);

static void cell_insert_below(struct cell *cell, struct body *body, unsigned depth)
{
    unsigned which = 0;
    double centre[3];

    for (int d = 0; d < 3; d++) {
        int high = body->at[d] > cell->centre[d];
        which |= (unsigned)high << d;
        centre[d] = cell->centre[d] + (high ? cell->half / 2 : -cell->half / 2);
    }
    if (!cell->child[which])
        cell->child[which] = cell_make(centre, cell->half / 2);
    cell_insert(cell->child[which], body, depth + 1);
}

static void cell_insert(struct cell *cell, struct body *body, unsigned depth)
{
    int is_empty = cell->mass == 0;

    for (int d = 0; d < 3; d++)
        cell->heart[d] =
            (cell->heart[d] * cell->mass + body->at[d] * body->mass) / (cell->mass + body->mass);
    cell->mass += body->mass;
    if (is_empty || depth > 40) {
        cell->body = body;
        return;
    }
    if (cell->body && depth <= 40) {
        cell_insert_below(cell, cell->body, depth);
        cell->body = NULL;
    }
    cell_insert_below(cell, body, depth);
}

static void cell_attract(const struct cell *cell, struct body *body)
{
    double apart[3], square = 0.01, pull;

    if (cell->body == body)
        return;
    for (int d = 0; d < 3; d++) {
        apart[d] = cell->heart[d] - body->at[d];
        square += apart[d] * apart[d];
    }
    if (!cell->body && cell->half * cell->half > square * 0.5) {
        for (int i = 0; i < 8; i++)
            if (cell->child[i])
                cell_attract(cell->child[i], body);
        return;
    }
    pull = cell->mass / (square * sqrt(square));
    for (int d = 0; d < 3; d++)
        body->force[d] += apart[d] * pull;
}

static void cell_free(struct cell *cell)
{
    for (int i = 0; i < 8; i++)
        if (cell->child[i])
            cell_free(cell->child[i]);
    free(cell);
}

static void step(struct body **bodies)
{
    double centre[3] = {0, 0, 0};
    struct cell *root = cell_make(centre, 64);

    for (int i = 0; i < BODIES; i++)
        cell_insert(root, bodies[i], 0);
    for (int i = 0; i < BODIES; i++) {
        memset(bodies[i]->force, 0, sizeof(bodies[i]->force));
        cell_attract(root, bodies[i]);
    }
    for (int i = 0; i < BODIES; i++)
        for (int d = 0; d < 3; d++) {
            bodies[i]->speed[d] += bodies[i]->force[d] * 1e-7;
            bodies[i]->at[d] += bodies[i]->speed[d];
        }
    cell_free(root);
}

uint64_t own_nbody(unsigned scale)
{
    struct own_random random = {1};
    struct body **bodies = own_alloc(BODIES * sizeof(*bodies));
    double sum = 0;

    for (int i = 0; i < BODIES; i++) {
        bodies[i] = own_alloc(sizeof(*bodies[i]));
        memset(bodies[i], 0, sizeof(*bodies[i]));
        for (int d = 0; d < 3; d++)
            bodies[i]->at[d] = own_below(&random, 100000) / 1000.0 - 50;
        bodies[i]->mass = 1 + own_below(&random, 100);
    }
    for (unsigned n = 0; n < scale * 2 / 3 + 1; n++)
        step(bodies);
    for (int i = 0; i < BODIES; i++) {
        sum += bodies[i]->at[0];
        free(bodies[i]);
    }
    free(bodies);
    return (uint64_t)(int64_t)(sum * 1000);
}
