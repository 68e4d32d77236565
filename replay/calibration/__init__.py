"""Measuring the weights of the cost model: operations on a store, their times, and the fit."""
